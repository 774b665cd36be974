"""The `seq` command: one file per noun; `main` wires them."""
