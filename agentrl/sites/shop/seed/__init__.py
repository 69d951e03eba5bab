"""The records of the shop that every episode begins with."""
