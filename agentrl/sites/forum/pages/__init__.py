"""Pages of the forum, by what they are about."""
