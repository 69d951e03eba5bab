"""The shop's administration; its records are the shop's."""
