"""A forum of communities, submissions and comments."""
