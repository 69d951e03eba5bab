"""Requests for the differential test, by name: good, odd and hostile ones.

A case is a list of steps; see `steps`.
"""

import itertools

from tests.sglang import (
    body_cases,
    control_cases,
    generate_cases,
    openai_cases,
)
from tests.sglang.steps import Step, generate, post

# Requests that end a real server's scheduler, and with it the server; the engine
# refuses them with a 400. Nothing here sends them to a server.
DEADLY = {
    'token id of the size of the vocabulary': generate(input_ids=['<vocab>']),
    'empty text': generate(text=''),
    'batch of one empty prompt': generate(input_ids=[[]]),
    'batch with an empty prompt': generate(input_ids=[[], [5]]),
    'logprob_start_len -2': generate(return_logprob=True, logprob_start_len=-2),
    'logprob_start_len in a list for one prompt': generate(
        return_logprob=True, logprob_start_len=[0]
    ),
    'load_format that does not exist': post(
        'update_weights_from_disk',
        {'model_path': '<weights>', 'load_format': 'nonsense'},
    ),
}


def all_cases() -> dict[str, list[Step]]:
  """The steps of each case."""
  cases: dict[str, list[Step]] = {}
  for name, steps in itertools.chain(
      generate_cases.good(),
      body_cases.sampling(),
      body_cases.fields(),
      generate_cases.lengths(),
      generate_cases.raw_bodies(),
      control_cases.control(),
      control_cases.state(),
      control_cases.running(),
      openai_cases.openai(),
  ):
    assert name not in cases, name
    cases[name] = steps if isinstance(steps, list) else [steps]
  return cases
