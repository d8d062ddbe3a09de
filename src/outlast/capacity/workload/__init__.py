"""The workload file: its keys, its checks and its JSON Schema."""
