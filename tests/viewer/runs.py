"""Folders of runs, made without a policy."""

import dataclasses
import json

from agentrl.data import episodes as episodes_lib
from agentrl.types import Episode, Message, Turn


def turn(number, **values):
  """A turn of a made episode."""
  made = Turn(
      completion=f'Thought: {number}. Action: go {number}',
      action=f'go {number}',
      parse_error=None,
      observation=f'You see door {number}.',
      reward=0.0,
      finish_reason='stop',
      prompt_tokens=10 + number,
      cached_tokens=0,
      completion_tokens=2,
      weight_version='1',
      sampler_s=0.01,
      env_s=0.002,
  )
  return dataclasses.replace(made, **values)


def episode(name='e', turns=3, **values):
  """An episode of this many turns, whose tokens are the turns' numbers."""
  found = values.pop('made', None) or tuple(turn(i) for i in range(turns))
  mask = [False] * 3
  for _ in found:
    mask += [True, True, False]
  made = Episode(
      episode_id=name,
      env='babyai',
      task_id=1,
      split='train',
      seed=7,
      policy_version=1,
      horizon=6,
      stop_reason='terminated',
      success=False,
      prompt=(Message('system', 'Act.'), Message('user', 'You see a ball.')),
      turns=found,
      tokens=tuple(range(len(mask))),
      completion_mask=tuple(mask),
      sampler_logprobs=tuple(-0.5 if x else 0.0 for x in mask),
  )
  return dataclasses.replace(made, **values)


def write(
    root,
    run='run',
    file='episodes/train/000000.jsonl',
    episodes=None,
    env='babyai',
    **options,
):
  """Writes a run with one more file of episodes; its path."""
  folder = root / run
  folder.mkdir(parents=True, exist_ok=True)
  (folder / 'config.json').write_text(
      json.dumps({'mode': 'train', 'env': {'name': env, 'options': options}})
  )
  path = folder / file
  found = [episode(f'e{i}') for i in range(4)] if episodes is None else episodes
  episodes_lib.write(path, found)
  return path
