"""Pages of the admin, by what they are about."""
