"""Pages name fields that exist."""

import pathlib
import re

from agentrl import config as config_lib
from agentrl.algos.hyperparams import ONLINE

PAGE = (
    pathlib.Path(__file__).parents[2]
    / 'experiments'
    / 'coming_from_agentgym_rl.md'
)


def test_each_argument_of_agentgym_rl_is_mapped_to_a_field():
  known = {path for algo in ONLINE for path in config_lib.leaves('train', algo)}
  rows = re.findall(r'^\| (`.*?) \| (.*?) \| .*\|$', PAGE.read_text(), re.M)
  assert len(rows) > 30
  found = []
  for _, here in rows:
    named = re.findall(r'`([a-z_]+(?:\.[a-z_]+)+|num_steps)(?:=[^`]*)?`', here)
    found += [name for name in named if '/' not in name]
  found = [name for name in found if not name.endswith('.py')]
  assert len(found) > 30
  assert [name for name in found if name not in known] == []
