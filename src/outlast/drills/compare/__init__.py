"""Compares the output files of two runs by content."""
