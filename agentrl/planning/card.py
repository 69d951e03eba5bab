"""One GPU for the trainer and SGLang servers that the run starts: their shares.

XLA takes `XLA_CLIENT_MEM_FRACTION` of the whole card when the trainer starts, 0.75
unless said otherwise, and keeps it. A server starts after that and takes
`--mem-fraction-static` of what is free THEN, weights included: 0.35 beside a
trainer of 0.5 is 17% of the card. What both leave is for CUDA graphs and
activations of the server.
"""

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from agentrl.errors import ConfigError
from agentrl.models.config import TransformerConfig
from agentrl.planning import plan as plan_lib
from agentrl.serving.options import Launch

_GIB = 2**30
_MIB = 2**20
_FRACTION = 'XLA_CLIENT_MEM_FRACTION'
_FORMER_FRACTION = 'XLA_PYTHON_CLIENT_MEM_FRACTION'  # still read by XLA
_XLA_FRACTION = 0.75  # its default
STATIC = '--mem-fraction-static'
_STATIC = 0.8  # of SGLang's own choice it depends on the card: about this
_SGLANG = 'sglang.launch_server'
_ANSWER_S = 3.0


@dataclasses.dataclass(frozen=True)
class Card:
  """Bytes of a card: all, and those that nothing has taken yet."""

  total: int
  free: int


@dataclasses.dataclass(frozen=True)
class Shares:
  """The use of a card by the trainer and the servers beside it, in bytes.

  Attributes:
    card: that is shared.
    fraction: of the whole card that XLA takes.
    trainer: what that is.
    static: the server's fraction of what is then free.
    server: what the last server to start gets, for weights and KV cache.
    weights: of the served policy.
    sequence: of its KV cache for one episode of `rollout.max_context` tokens.
  """

  card: Card
  fraction: float
  trainer: int
  static: float
  server: int
  weights: int
  sequence: int

  @property
  def words(self) -> str:
    """The shares, in a sentence."""
    gib = lambda size: f'{size / _GIB:.1f} GiB'
    return (
        f'Of {gib(self.card.free)} free on a card of {gib(self.card.total)} the'
        f' trainer takes {gib(self.trainer)} ({_FRACTION}={self.fraction:g})'
        f' and SGLang {gib(self.server)} ({STATIC} {self.static:g} of the'
        f' rest), of which {gib(self.weights)} are weights and'
        f' {gib(self.sequence)} an episode of rollout.max_context tokens.'
    )

  @property
  def fault(self) -> str | None:
    """The part that does not fit, and the way out; None: all fit."""
    if self.trainer > self.card.free:
      most = self.card.free / self.card.total
      return (
          f'The trainer does not fit: set {_FRACTION} below {most:.2f}, or end'
          ' what else runs on this card.'
      )
    need = self.weights + self.sequence
    if self.server >= need:
      return None
    # The trainer's fraction that would leave enough at the same `static`.
    room = (self.card.free - need / self.static) / self.card.total
    lower = f'{_FRACTION}={int(room * 100) / 100:g}' if room > 0.01 else None
    ways = [lower and f'set {lower}', 'give the server a card of its own'
            ' (sampler.launch.devices)', 'a smaller model.name or'
            ' rollout.max_context']  # fmt: skip
    return (
        f'SGLang does not fit: it needs {need / _GIB:.1f} GiB for the weights'
        f' and one episode; {", ".join(filter(None, ways))}.'
    )


def shares(
    config: Any,
    shape: TransformerConfig,
    card: Card,
    environ: Mapping[str, str] = os.environ,
) -> Shares | None:
  """The shares of a card; None where the servers are not on the trainer's.

  Args:
    config: of a mode that samples.
    shape: of the policy.
    card: the trainer's first.
    environ: has XLA's fraction, if one was chosen.

  Raises:
    ConfigError: a fraction is not between 0 and 1.
  """
  sampler = getattr(config, 'sampler', None)
  launch = getattr(sampler, 'launch', None)
  if (
      sampler is None
      or launch is None
      or sampler.kind != 'sglang'
      or not launch.python
      or launch.module != _SGLANG
  ):
    return None
  beside = _beside(launch, environ)
  if not beside:
    return None
  fraction = _fraction(
      environ.get(_FRACTION) or environ.get(_FORMER_FRACTION),
      _XLA_FRACTION,
      _FRACTION,
  )
  static = _fraction(launch.value_of(STATIC), _STATIC, STATIC)
  trainer = int(fraction * card.total)
  left, server = max(card.free - trainer, 0), 0
  for _ in range(beside):
    server = int(static * left)
    left -= server
  split = launch.tensor_parallel
  weights, sequence = plan_lib.served_bytes(config, shape)
  return Shares(
      card=card,
      fraction=fraction,
      trainer=trainer,
      static=static,
      server=server,
      weights=weights // split,
      sequence=sequence // split,
  )


def find(environ: Mapping[str, str] = os.environ) -> Card | None:
  """The trainer's first card as nvidia-smi reports it; None: there is none.

  To be asked before jax starts, which takes its share at once.
  """
  if not shutil.which('nvidia-smi'):
    return None
  first = _devices(environ.get('CUDA_VISIBLE_DEVICES', '0'))[:1]
  if not first:
    return None
  try:
    done = subprocess.run(
        [
            'nvidia-smi',
            f'--id={first[0]}',
            '--query-gpu=memory.total,memory.free',
            '--format=csv,noheader,nounits',
        ],
        capture_output=True,
        text=True,
        timeout=_ANSWER_S,
        check=True,
    )
    total, free = (int(x) * _MIB for x in done.stdout.split(','))
  except (OSError, subprocess.SubprocessError, ValueError):
    return None  # it has no card to report; `doctor.devices` says what jax has
  return Card(total, free)


def _beside(launch: Launch, environ: Mapping[str, str]) -> int:
  """How many of the servers are on the trainer's cards."""
  if not launch.devices:
    return launch.replicas
  ours = set(_devices(environ.get('CUDA_VISIBLE_DEVICES', '0')))
  return sum(bool(ours.intersection(_devices(x))) for x in launch.devices)


def _devices(text: str) -> list[str]:
  return [part.strip() for part in text.split(',') if part.strip()]


def _fraction(text: str | None, default: float, name: str) -> float:
  if not text:
    return default
  try:
    value = float(text)
  except ValueError:
    value = 0.0
  if not 0 < value < 1:
    raise ConfigError(f'{name}={text} is no fraction; give one as 0.5.')
  return value
