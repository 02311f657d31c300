"""Pure scaling: from one window of metrics to two replica counts and the reason for them."""
