"""An episode played again, for what its record does not hold.

An environment is a function of task, seed and actions, so the same actions give
the same observations; where they do not, the reader is told.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from agentrl.envs.client import EnvClient
from agentrl.types import ACT
from agentrl.viewer.record import Record

_SHOWN = 400  # characters of two observations that differ
_MOST_TURNS = 400

Box = tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True)
class Difference:
  """An observation that is not the recorded one.

  Attributes:
    done: turns played before it.
    recorded: around the first difference.
    found: likewise.
  """

  done: int
  recorded: str
  found: str


@dataclasses.dataclass(frozen=True)
class Again:
  """The record of an episode that was played again.

  Attributes:
    pictures: PNG files, at the reset and after each turn; empty: the
      environment draws none.
    boxes: of the element that each turn's action names, in the picture before
      it; None where there is none.
    probed: what the probe of the environment (`EnvSpec.probe`) showed at the
      reset and after each turn; empty: there is none, or it changed something.
    differences: from the record, in order.
    done: turns that were played.
    ended: why no further one was; '' at the end of the record.
  """

  pictures: Sequence[bytes]
  boxes: Sequence[Box | None]
  differences: Sequence[Difference]
  done: int
  ended: str
  probed: Sequence[str] = ()


async def play(record: Record, client: EnvClient) -> Again:
  """Plays an episode's actions.

  Args:
    record: the episode.
    client: not yet open; the caller closes it.

  Raises:
    EnvError: the environment failed.
  """
  spec = client.spec
  renders = spec.dialect.renders
  pictures, boxes, differences, ended = [], [], [], ''
  observation = await client.reset(record.task_id)
  opening = record.prompt[-1].content if record.prompt else ''
  if not opening.endswith(observation):
    differences.append(_difference(0, opening, observation))
  if renders:
    pictures.append(await client.picture())
  done, over = 0, False
  for turn in record.turns:
    if over:
      ended = 'The environment ended the episode before the record does.'
      break
    if done == _MOST_TURNS:
      ended = f'Only the first {_MOST_TURNS} turns are played again.'
      break
    box = None
    # A completion without an action never reached the environment.
    if turn.kind == ACT and turn.parse_error is None:
      number = spec.element_of(turn.action) if spec.element_of else None
      if number is not None:
        box = (await client.boxes()).get(number)
      result = await client.step(turn.action)
      over = result.terminated or result.truncated
      if result.observation != turn.observation:
        differences.append(
            _difference(done + 1, turn.observation, result.observation)
        )
    boxes.append(box)
    done += 1
    if renders:
      pictures.append(await client.picture())
  again = Again(pictures, boxes, differences, done, ended)
  if spec.probe is None or differences:
    return again
  probed = await _probe(record, client, spec.probe)
  return dataclasses.replace(again, probed=probed)


async def _probe(
    record: Record, client: EnvClient, probe: str
) -> Sequence[str]:
  """The probe's answers; empty where the episode then goes another way."""
  await client.reset(record.task_id)
  answers = [(await client.step(probe)).observation]
  for turn in record.turns:
    if turn.kind == ACT and turn.parse_error is None:
      result = await client.step(turn.action)
      if result.observation != turn.observation:
        return ()
      if result.terminated or result.truncated:
        break
    result = await client.step(probe)
    if result.terminated or result.truncated:
      return ()
    answers.append(result.observation)
  return answers


def _difference(done: int, recorded: str, observation: str) -> Difference:
  """The two texts from shortly before where they part."""
  pairs = zip(recorded, observation, strict=False)
  same = next(
      (i for i, (a, b) in enumerate(pairs) if a != b),
      min(len(recorded), len(observation)),
  )
  part = slice(max(same - 40, 0), same + _SHOWN)
  return Difference(done, recorded[part], observation[part])


def as_json(again: Again) -> dict[str, Any]:
  """The JSON for pages; pictures have a route of their own."""
  return {
      'pictures': len(again.pictures),
      'boxes': sum(box is not None for box in again.boxes),
      'differences': [dataclasses.asdict(x) for x in again.differences[:20]],
      'num_differences': len(again.differences),
      'done': again.done,
      'ended': again.ended,
  }


def size(again: Again) -> int:
  """Bytes of its pictures."""
  return sum(map(len, again.pictures))
