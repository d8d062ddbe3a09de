"""Commands for queues and batch jobs."""
