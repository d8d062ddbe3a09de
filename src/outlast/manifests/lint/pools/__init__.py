"""Node pools, read from whatever describes them: scripts, Terraform, exports, the workload file."""
