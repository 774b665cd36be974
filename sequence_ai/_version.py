"""The version of the one distribution; client, SDK and platform share it."""

__version__ = "0.1.0"
