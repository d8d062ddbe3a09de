"""Node pools, read from scripts, Terraform, exports of a cluster and workload files."""
