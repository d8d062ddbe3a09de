"""Read items from files or iterables and publish them to a queue."""
