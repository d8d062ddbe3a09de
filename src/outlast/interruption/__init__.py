"""Hears that this process will be ended, knows until when it may live, and leaves in time."""
