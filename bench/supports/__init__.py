"""What the subjects run."""
