"""Pages of the shop, by what they are about."""
