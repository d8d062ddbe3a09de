"""Shows a drill while it runs."""
