"""The PostgreSQL queue."""
