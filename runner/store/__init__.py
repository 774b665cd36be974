"""The truth: rows behind a database URL, and blobs."""
