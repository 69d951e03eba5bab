"""A forge of software projects."""
