"""The SQLite queue."""
