"""Runs the command on simulated nodes and evicts it on schedule."""
