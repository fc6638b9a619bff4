"""Measurements: `make bench` (speed) and `make quality` (search quality)."""
