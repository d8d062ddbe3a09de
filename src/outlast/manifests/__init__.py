"""Kubernetes manifests: render them from a workload file, and lint existing ones."""
