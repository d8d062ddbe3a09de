"""What a run's store holds: its attempts, its checkpoints and their history."""
