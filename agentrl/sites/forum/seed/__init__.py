"""The records of the forum that every episode begins with."""
