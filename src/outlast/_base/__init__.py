"""What every other package may use: durations and settings."""
