"""Builds Kustomize overlays in memory. Each value of the result knows the file it came from."""
