"""The deployment that the robots of the bench drive."""
