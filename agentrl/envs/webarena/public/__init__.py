"""The 812 public tasks of WebArena, played on hosts of your own.

`tasks` reads them, `sites` finds and checks the hosts, `grade` gives the score
of an episode by the evaluators that each form of the tasks came with.
"""
