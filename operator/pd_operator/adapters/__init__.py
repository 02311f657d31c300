"""The world behind the protocols: API server, Prometheus, engine pods, events and clock."""
