"""Turns what a drill observed into checks, a verdict and a report."""
