"""The HTTP side of the platform: one thin router file a noun."""
