"""SQLite and PostgreSQL access, shared by queues and sinks."""
