"""The demo: train a small network, then score images with it, evicted all the while."""
