"""The live state, captured as a tree of nodes and arrays."""
