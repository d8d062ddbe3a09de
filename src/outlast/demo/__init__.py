"""The demo: train a small network and score images with it, with evictions."""
