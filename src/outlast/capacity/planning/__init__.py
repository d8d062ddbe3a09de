"""Plan the capacity for a workload, and explain and learn from past runs."""
