"""From metrics to two numbers. Pure: no input or output, no clock, no randomness."""
