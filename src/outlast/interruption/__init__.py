"""Receive the notice that this process will be stopped, track its deadline, and exit in time."""
