"""Submit workloads and wait for them."""
