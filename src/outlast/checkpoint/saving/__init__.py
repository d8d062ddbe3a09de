"""One save: staging, packing, committing, and deleting what is no longer needed."""
