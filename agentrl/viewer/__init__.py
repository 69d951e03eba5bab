"""A server and pages that show runs, episodes and the tokens of updates."""
