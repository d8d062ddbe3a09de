"""Simulate a job on machines that are taken away, and replay recorded traces of them."""
