"""Pages of the forge, by what they are about."""
