"""What a run does, from its objects in the cluster and its journal, as one picture."""
