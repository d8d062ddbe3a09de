"""Commands that render and check manifests."""
