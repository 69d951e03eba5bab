"""Templates from which projects can be made."""

from agentrl.sites import seed_data

_DATA = seed_data.read(__file__)
STARTERS = _DATA['starters']
