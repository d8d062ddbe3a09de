"""Checkpoints beside their peers and the limits of the machine: `python -m bench.checkpoint`."""
