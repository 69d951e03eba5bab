"""Models by name, the workdir of a run included."""

import json
import pathlib

import jax

from agentrl.errors import CheckpointError
from agentrl.models import transformer
from agentrl.models.transformer import Transformer, TransformerConfig
from agentrl.modes import parts
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training.checkpoint import Checkpoints
from agentrl.weights import load as weights


def load(name: str) -> tuple[parts.Model, str]:
  """A policy and the version of its weights.

  Args:
    name: workdir of a training run (its newest checkpoint is taken), or what
      `weights.resolve` knows: a known name, a Hugging Face directory, a .gguf
      file, a hub name.

  Raises:
    AgentrlError: there is no such model, or it cannot be read.
  """
  workdir = pathlib.Path(name)
  if (workdir / 'checkpoints').is_dir():
    return _load_run(workdir)
  return parts.load_model(name), 'default'


def _load_run(workdir: pathlib.Path) -> tuple[parts.Model, str]:
  checkpoints = Checkpoints(workdir / 'checkpoints')
  try:
    if checkpoints.latest is None:
      raise CheckpointError(
          f'{workdir} holds a run without a complete checkpoint; let it run'
          ' longer.'
      )
    host = checkpoints.host()
    config = TransformerConfig(**host['model'])
    params = checkpoints.restore({'params': _abstract(config)})['params']
  finally:
    checkpoints.close()
  model = parts.Model(config, params, run_tokenizer(workdir), str(workdir))
  return model, str(host['books']['policy_version'])


def run_tokenizer(workdir: pathlib.Path) -> tokenizer_lib.Tokenizer:
  """The tokenizer of a run: its own, or that of the model it started from."""
  path = workdir / 'tokenizer'
  if not path.exists():
    config = json.loads((workdir / 'config.json').read_text())
    name = config['model']['name']
    if (pathlib.Path(name) / 'checkpoints').is_dir():
      return run_tokenizer(pathlib.Path(name))  # it went on from another run
    path = weights.resolve(name)
  return tokenizer_lib.load(path)


def _abstract(config: TransformerConfig):
  module = Transformer(config, scan_layers=True)
  device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  shapes = jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )
  return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), shapes
  )
