"""SciWorld: science experiments in a house, in text."""
