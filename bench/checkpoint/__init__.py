"""Checkpoints beside their peers and the limits of the machine: `python -m bench.checkpoint`."""

from bench.checkpoint.measures import report

__all__ = ["report"]
