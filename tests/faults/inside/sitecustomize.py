"""Marks the phases of a run from outside; put before other paths of its Python.

With `FAULTS_MARKS=PIPE` each phase writes `PHASE begin` and `PHASE end` to this number
of a pipe. With `FAULTS_BROKEN=NAME` the run has a fault of `BROKEN`,
which the harness must find. Modules are patched when the run has imported them.
"""

import dataclasses
import functools
import importlib.abc
import importlib.util
import os
import sys
import time

_MARKS = os.environ.pop('FAULTS_MARKS', None)  # no child has the pipe
_BROKEN = os.environ.get('FAULTS_BROKEN')
# An embedded engine takes its weights within 3 ms, which no signal would hit.
_LINGER_S = 0.05
# module -> (attributes from there to a function, phase that its call is).
_PHASES = {
    'agentrl.modes.learning': (
        ('play_expert', 'warm start'),
        ('warm_start', 'warm start'),
        ('push', 'push'),
        ('evaluate', 'evaluation'),
    ),
    'agentrl.rollout.supply': (('InTurns.collect', 'collection'),),
    'agentrl.rollout.ahead': (('Ahead.collect', 'collection'),),
    'agentrl.training.policy_update': (('update_policy', 'update'),),
    # Returns before the files are written: until then, the last phase that began
    # is this one, or already the next.
    'agentrl.modes.checkpoints': (('save', 'checkpoint'),),
}


def _mark(text):
  os.write(int(_MARKS), f'{text}\n'.encode())


def _marked(function, phase):
  @functools.wraps(function)
  def call(*args, **kwargs):
    _mark(f'{phase} begin')
    linger_s = _LINGER_S if phase == 'push' else 0.0
    time.sleep(linger_s)
    try:
      return function(*args, **kwargs)
    finally:
      time.sleep(linger_s)
      _mark(f'{phase} end')

  return call


def _patch(module, path, wrap):
  *owners, name = path.split('.')
  owner = functools.reduce(getattr, owners, module)
  setattr(owner, name, wrap(getattr(owner, name)))


def _halves(call):
  """A push that is not atomic: every second array comes with the next one."""
  old = []

  async def push(self, params, version):
    import jax

    leaves, tree = jax.tree.flatten(params)
    copies = [leaf.copy() for leaf in leaves]
    mixed = [
        (old or copies)[i] if i % 2 else leaf for i, leaf in enumerate(leaves)
    ]
    old[:] = copies
    await call(self, jax.tree.unflatten(tree, mixed), version)

  return push


def _skipping(call):
  """A cursor that skips what was in flight: dropped groups never come again."""

  def restore(self, state):
    # A collection of them: more would leave the last batch short for ever.
    count = self._settings.groups
    dropped = {x[0] for x in sorted(state['admitted'])[:count]}
    pipeline = {
        name: (
            [x for x in value if x[0] not in dropped]
            if name in ('running', 'done')
            else value
        )
        for name, value in state['pipeline'].items()
    }
    admitted = [x for x in state['admitted'] if x[0] not in dropped]
    rounds = self._settings.rounds + 1
    self._settings = dataclasses.replace(self._settings, rounds=rounds)
    call(self, {**state, 'pipeline': pipeline, 'admitted': admitted})

  return restore


def _doubling(call):
  """Records of steps that are done again stay, so that they are there twice."""
  del call
  return lambda self, step: 0


# name -> (module, attributes, wrapper).
BROKEN = {
    'push': ('agentrl.serving.weight_sync.push', 'EmbeddedPush.__call__', _halves),
    'cursor': ('agentrl.rollout.ahead', 'Ahead.restore', _skipping),
    'record': ('agentrl.training.run_record', 'RunRecord.discard_from', _doubling),
}  # fmt: skip


def _patches():
  """Module -> its (attributes, wrapper)."""
  found = {}
  for module, entries in _PHASES.items() if _MARKS else ():
    for path, phase in entries:
      wrap = functools.partial(_marked, phase=phase)
      found.setdefault(module, []).append((path, wrap))
  if _BROKEN:
    module, path, wrap = BROKEN[_BROKEN]
    found.setdefault(module, []).append((path, wrap))
  return found


class _Finder(importlib.abc.MetaPathFinder):
  """Finds modules as without it, and patches some once they are executed."""

  def __init__(self, patches):
    self._patches = patches

  def find_spec(self, name, path=None, target=None):
    del path, target
    patches = self._patches.pop(name, None)  # else it would find itself
    if patches is None:
      return None
    spec = importlib.util.find_spec(name)
    execute = spec.loader.exec_module

    def exec_module(module):
      execute(module)
      for attributes, wrap in patches:
        _patch(module, attributes, wrap)

    spec.loader.exec_module = exec_module
    return spec


if _MARKS or _BROKEN:
  sys.meta_path.insert(0, _Finder(_patches()))
