"""Writes small projects that survive evictions as they are, to be changed into one's own."""
