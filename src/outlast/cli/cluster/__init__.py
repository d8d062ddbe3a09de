"""Commands that talk to a Kubernetes cluster."""
