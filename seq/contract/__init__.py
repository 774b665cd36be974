"""The wire: every body that crosses a socket, named once. One file a noun; nothing here does I/O."""

CONTRACT_VERSION = "0.5.10"
"""The version of the published contract these bodies follow."""
