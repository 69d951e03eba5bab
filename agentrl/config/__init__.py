"""The config: its fields, their defaults, and how it is read.

A config file begins with `config = defaults(mode)` and lists what differs;
flags reach every field of it; `read` makes the mode's dataclasses of it, and
below the modes functions take those or named values. Imports no jax.
"""

from agentrl.config.build import Leaf, defaults, leaves
from agentrl.config.modes import MODES, flat, record
from agentrl.config.reading import brought, read, usual

__all__ = [
    'MODES',
    'Leaf',
    'brought',
    'defaults',
    'flat',
    'leaves',
    'read',
    'record',
    'usual',
]
