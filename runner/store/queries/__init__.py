"""What is asked of the rows, one module a noun: plain functions over a session."""
