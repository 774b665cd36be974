"""What is due in time."""
