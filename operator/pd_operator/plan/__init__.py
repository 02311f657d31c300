"""Pure planning: from a service's spec and what was observed to what should exist. No I/O, no clock."""
