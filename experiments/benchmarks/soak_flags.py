"""Flags of more than one soak."""

from absl import flags

REQUESTS = flags.DEFINE_integer('requests', None, 'In all; default: see there.')
CLIENTS = flags.DEFINE_integer('clients', 32, 'Clients at once.')
SEED = flags.DEFINE_integer('traffic_seed', 0, 'Of all that is drawn.')
