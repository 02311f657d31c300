"""A real cluster on this machine, and what is run against it."""
