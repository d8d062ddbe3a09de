"""What rules know about Kubernetes and GKE objects."""
