"""Other systems in a process of their own, timed in turns with ours.

    python3.11 -m venv torch-env
    torch-env/bin/pip install torch==2.13.0 transformers==5.23.0 trl==1.16.0 peft==0.21.2
    python3.12 -m venv tunix-env
    tunix-env/bin/pip install google-tunix==0.1.7

makes the interpreters that `--transformers=torch-env/bin/python`,
`--trl=torch-env/bin/python` and `--tunix=tunix-env/bin/python` name. Each runs the script `peer_NAME.py` beside
this file, which needs nothing of agentrl: it reads a task a line, and answers
with a line of JSON. While our side works it waits, and the other way round.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from agentrl.models.config import TransformerConfig

_TRANSFORMERS = flags.DEFINE_string(
    'transformers', None, 'Interpreter that has transformers and torch.'
)
_TRL = flags.DEFINE_string(
    'trl', None, 'Interpreter that has trl, peft and torch.'
)
_TUNIX = flags.DEFINE_string(
    'tunix', None, 'Interpreter that has google-tunix; for tiny-4m only.'
)
_THREADS = 2


class Peer:
  """A running `peer_NAME.py` with a random model of a given shape."""

  def __init__(self, name: str, python: str, config: TransformerConfig):
    self.name = name
    self._process = subprocess.Popen(
        [python, pathlib.Path(__file__).with_name(f'peer_{name}.py')],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Threads that spin while they wait would take our cores.
        env=os.environ
        | dict(
            OMP_WAIT_POLICY='PASSIVE',
            OMP_NUM_THREADS=str(_THREADS),
            JAX_PLATFORMS='cpu',
        ),
    )
    self.about = self._exchange(dataclasses.asdict(config))
    if self.about['num_params'] != config.num_params:
      raise RuntimeError(
          f'The model of {name} has {self.about["num_params"]} parameters, ours'
          f' {config.num_params}.'
      )

  def ask(self, task: str, **arguments: Any) -> dict[str, Any]:
    """The answer to one task, a function of its script.

    Raises:
      RuntimeError: it has ended; its own words are on stderr.
    """
    return self._exchange(dict(task=task, **arguments))

  def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
    with contextlib.suppress(BrokenPipeError):
      print(json.dumps(message), file=self._process.stdin, flush=True)
    line = self._process.stdout.readline()
    if not line:
      status = self._process.wait()
      raise RuntimeError(f'peer_{self.name}.py ended with status {status}.')
    return json.loads(line)

  def close(self) -> None:
    """Ends it; at the end of its input it leaves by itself."""
    self._process.communicate()


def start(
    stack: contextlib.ExitStack,
    model: str,
    config: TransformerConfig,
    names: Sequence[str],
) -> list[Peer]:
  """Those of the named peers that flags name too and that have such a model."""
  pythons = {
      'transformers': _TRANSFORMERS.value,
      'trl': _TRL.value,
      # It is minutes per call on larger ones.
      'tunix': _TUNIX.value if model == 'tiny-4m' else None,
  }
  started = []
  for name, python in pythons.items():
    if python and name in names:
      started.append(Peer(name, python, config))
      stack.callback(started[-1].close)
  return started


def alternate(
    sides: Mapping[str, Callable[[], dict[str, Any]]], repeats: int
) -> dict[str, list[dict[str, Any]]]:
  """Calls each side in turns, so that a drift of the machine hits all."""
  runs = {name: [] for name in sides}
  for _ in range(repeats):
    for name, run in sides.items():
      runs[name].append(run())
  return runs


def spread(values: Sequence[float]) -> dict[str, Any]:
  """Median and range."""
  return dict(
      median=statistics.median(values), range=[min(values), max(values)]
  )
