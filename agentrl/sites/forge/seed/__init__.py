"""The records of the forge that every episode begins with."""
