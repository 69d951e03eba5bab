"""Four web sites with their records, and the tasks on them.

They know nothing of agents, browsers or training: `envs/webarena` serves them to a
browser and plays the tasks. A site is a folder: `pages` (handlers), `seed` (the
records that every episode begins with), `tasks` (templates, each with its goal
and the steps that reach it), `templates` and `static` (what pages look like).
"""
