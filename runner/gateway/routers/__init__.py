"""The routes, one module a noun, each with a `router`."""
