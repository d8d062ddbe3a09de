"""The client of a cluster, without one: kubeconfigs, credentials, and broken answers."""
