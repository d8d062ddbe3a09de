"""The checkpoint format: manifests, chunk layout, validation, signatures, export."""
