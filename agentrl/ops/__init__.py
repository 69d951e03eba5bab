"""The mathematics: pure functions on arrays, one concept a file."""
