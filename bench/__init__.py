"""Measurements against limits and peers; no part of the tests."""
