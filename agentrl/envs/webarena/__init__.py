"""Four sites on loopback and tasks on them, in the manner of WebArena.

arXiv:2307.13854 has the tasks that these were written after; `public` plays
those themselves on hosts of your own.
"""
