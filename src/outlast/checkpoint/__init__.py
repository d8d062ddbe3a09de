"""Saves the state of a run so that nothing torn is ever visible, and resumes it verified."""
