"""Servers and programs that tests start: real ones where they can be had, faulty ones by design."""
