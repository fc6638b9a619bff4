"""Measurements: `make bench` (how fast) and `make quality` (how good)."""
