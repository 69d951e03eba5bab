"""Instructions that strangers leave in texts of the shop."""

from agentrl.sites import seed_data

_DATA = seed_data.read(__file__)
INSTRUCTIONS = _DATA['instructions']
