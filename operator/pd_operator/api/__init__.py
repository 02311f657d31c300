"""The public API: models (the one source of the CRD), labels, condition names and quantities."""
