"""A shop, as its customers see it."""
