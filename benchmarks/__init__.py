"""Measurements. Each writes `build/bench/<name>.json` and prints a table with the marks to beat."""
