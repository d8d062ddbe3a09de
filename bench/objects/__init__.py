"""Checkpoints in an object store, beside raw transfers and peers: `python -m bench.objects`."""

from bench.objects.measures import report

__all__ = ["report"]
