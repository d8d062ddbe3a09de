"""Reach a cluster: kubeconfig, credentials, requests, and following objects."""
