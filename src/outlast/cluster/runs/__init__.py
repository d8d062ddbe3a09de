"""The runs in a cluster: find one, print its logs, stop and resume it."""
