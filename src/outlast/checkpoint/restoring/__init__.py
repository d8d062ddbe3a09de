"""Restoring a checkpoint: load, verify, bind to the live state, compare."""
