"""Writes small projects that survive evictions out of the box."""
