"""The contract's old name: files written for the product import from here."""
