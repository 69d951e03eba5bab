"""The machines of a run, their memory, and the bytes that pass between them.

From the config and the plan of a device alone: no machine is asked. Gradients and
parameters between devices are in the plan's collectives.
"""

import dataclasses
import math
import urllib.parse
from collections.abc import Iterable
from typing import Any, NamedTuple

from agentrl.models.config import TransformerConfig
from agentrl.planning import plan as plan_lib
from agentrl.planning.plan import Plan

HOST_DEVICES = 8

# Bytes of a token as they are encoded, for a vocabulary of six digits:
# tests/planning/cluster_test.py encodes some.
_ASKED = 8  # an id in the JSON of a request
_ANSWERED = 44  # an id, and its log-probability with the id once more
_RECORDED = 19  # an id, its mask and log-probability in a pickle, and its text
_TEXT = 4  # of an observation or an action


@dataclasses.dataclass(frozen=True)
class Side:
  """Machines that do the same.

  Attributes:
    name: of the side.
    hosts: machines; None: the config does not say.
    each: kind of the parts that hold memory there: devices or servers.
    count: of these parts; None: the config does not say.
    bytes: that each of them holds; None: nothing on a device.
    host_bytes: beside programs, in the memory of the host that holds most.
  """

  name: str
  hosts: int | None
  each: str
  count: int | None
  bytes: int | None
  host_bytes: int = 0


class Sent(NamedTuple):
  """A kind of bytes that crosses the network in an rl step."""

  name: str
  bytes: int


@dataclasses.dataclass(frozen=True)
class Cluster:
  """The machines of a run.

  Attributes:
    sides: the trainer first.
    sent: between machines in an rl step, if every episode is as long as it may
      be; what stays on one machine is left out.
  """

  sides: tuple[Side, ...]
  sent: tuple[Sent, ...]

  @property
  def several(self) -> bool:
    """False: one machine has it all, and sends nothing."""
    return len(self.sides) > 1 or self.sides[0].hosts != 1


def make(
    config: Any, shape: TransformerConfig, plan: Plan, host_devices: int
) -> Cluster:
  """The machines of a run by reinforcement learning.

  Args:
    config: of mode 'train'.
    shape: of its policy.
    plan: of its devices.
    host_devices: devices of a trainer's machine, which has one process.
  """
  devices = math.prod(plan.mesh.values())
  hosts = math.ceil(devices / host_devices)
  sampler = config.sampler
  found = sampler.kind == 'sglang' and not sampler.launch.python
  pushed = plan_lib.pushed_bytes(config, shape)
  records = _RECORDED * plan.work.episodes * config.rollout.max_context
  trainer = Side(
      'trainer',
      hosts,
      'device',
      devices,
      plan.peak,
      # Offloaded state, a whole copy of the weights that are pushed, and the
      # episodes of all.
      sum(plan.waiting.values()) * min(devices, host_devices)
      + pushed
      + records,
  )
  sides, sent = [trainer], []
  if hosts > 1:
    pushers = 1 if found else hosts
    sent += [
        Sent(
            'weights, brought together to push',
            _others(pushed, hosts) * pushers,
        ),
        Sent(
            'episodes, from each trainer to all others', records * (hosts - 1)
        ),
    ]
  if sampler.kind == 'sglang':
    side = _servers(config, shape, hosts)
    sides.append(side)
    if found:
      sent += [
          Sent('weights, written to sampler.push_dir', pushed),
          Sent('weights, read by the servers', pushed * (side.count or 1)),
          *_requests(config, plan.work.episodes),
      ]
  if config.env.urls:
    count = len(config.env.urls)
    sides.append(
        Side('environments', _hosts(config.env.urls), 'server', count, None)
    )
    text = _TEXT * plan.work.episodes * config.rollout.max_context
    sent.append(Sent('observations and actions', text))
  return Cluster(tuple(sides), tuple(sent))


def _servers(config: Any, shape: TransformerConfig, hosts: int) -> Side:
  """Inference servers: weights, and the episodes that go on at a time."""
  sampler, launch = config.sampler, config.sampler.launch
  weights, sequence = plan_lib.served_bytes(config, shape)
  playing = config.rollout.concurrency * hosts
  if launch.python:  # each trainer's machine has some of its own
    count = launch.replicas * hosts
    split = launch.tensor_parallel
    size = (weights + -(-playing // count) * sequence) // split
    return Side('inference', hosts, 'device', count * split, size)
  count = len(sampler.urls) or None
  size = weights + -(-playing // (count or 1)) * sequence
  where = _hosts(sampler.urls) if count else None
  return Side('inference', where, 'server', count, size)


def _requests(config: Any, episodes: int) -> Iterable[Sent]:
  """Each turn sends the whole transcript so far, which grows evenly."""
  turns, context = max(config.horizon.turns), config.rollout.max_context
  asked = episodes * context * (turns + 1) // 2
  answered = min(turns * config.rollout.max_completion_tokens, context)
  yield Sent('transcripts, to the inference servers', _ASKED * asked)
  yield Sent('completions, from them', _ANSWERED * episodes * answered)


def _others(size: int, hosts: int) -> int:
  """The part of what all hosts share that a host gets from the others."""
  return size * (hosts - 1) // hosts


def _hosts(urls: Iterable[str]) -> int:
  return len({urllib.parse.urlsplit(url).hostname for url in urls})
