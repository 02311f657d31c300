"""The lab: real Kubernetes from Go modules and Debian packages, without Docker or an image registry."""
