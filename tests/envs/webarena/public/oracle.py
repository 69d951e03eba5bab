"""webarena-verified's verdicts; runs in an environment of its own.

    python oracle.py < jobs.json > verdicts.json

A job is a task's id, a response and HAR entries; its verdict is a status. A
pair is a kind of value and two values; its verdict is whether they are equal,
or null where one cannot be read.
"""

import json
import logging
import sys

from webarena_verified.api import WebArenaVerified
from webarena_verified.core.evaluation.data_types import TYPE_REGISTRY
from webarena_verified.types.config import WebArenaVerifiedConfig


def main():
  logging.disable(logging.CRITICAL)
  given = json.load(sys.stdin)
  config = WebArenaVerifiedConfig(
      environments={
          f'__{site.upper()}__': {'urls': [url]}
          for site, url in given['urls'].items()
      }
  )
  judge = WebArenaVerified(config=config)
  verdicts = []
  for task_id, answer, entries in given['jobs']:
    result = judge.evaluate_task(
        task_id=task_id, agent_response=answer, network_trace=entries
    )
    verdicts.append(str(result.status))
  pairs = [equal(*pair) for pair in given['pairs']]
  json.dump({'jobs': verdicts, 'pairs': pairs}, sys.stdout)


def equal(kind, expected, actual):
  try:
    a, b = (TYPE_REGISTRY[kind](x) for x in (expected, actual))
  except Exception:  # as their normaliser, which keeps the value then
    return None
  return bool(a == b)


main()
