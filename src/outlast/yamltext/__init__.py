"""YAML and JSON with exact positions, and edits that leave the rest of the text unchanged."""
