"""Queues, measured: the bare loop as the limit, ours, and the peers that are installed."""
