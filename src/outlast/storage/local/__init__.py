"""The store in a local folder or on a mounted share."""
