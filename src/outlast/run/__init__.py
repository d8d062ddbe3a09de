"""`outlast.Run`: the training loop that joins guard, checkpoints and journal."""
