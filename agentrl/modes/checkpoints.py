"""Models by name, the workdir of a run included."""

import dataclasses
import pathlib
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from agentrl.errors import CheckpointError
from agentrl.models.config import TransformerConfig
from agentrl.modes import parts, resume
from agentrl.parallel import sharding
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import adapters, meshes
from agentrl.training.checkpoint import Checkpoints
from agentrl.weights import names, pretrained


def load(
    name: str, mesh: Mesh | None = None, *, dtype: Any = np.float32
) -> tuple[parts.Model, str]:
  """A policy and the version of its weights.

  Args:
    name: workdir of a training run (its newest checkpoint is taken; one of an
      adapter is merged into its base) or its checkpoints/N, or what
      `pretrained.resolve` knows: a known name, a Hugging Face directory, a .gguf
      file, a hub name.
    mesh: where its parameters live; None: on one device, or on the host.
    dtype: of its parameters; of a run with an adapter it is that of its base.

  Raises:
    AgentrlError: there is no such model, or it cannot be read.
  """
  found = resume.split(name)
  if found is None:
    return parts.load_model(name, mesh, dtype=dtype), 'default'
  workdir, number = found
  model, host = load_run(workdir, number, mesh=mesh, dtype=dtype)
  return model, str(host['books']['policy_version'])


def load_run(
    workdir: pathlib.Path,
    number: int | None = None,
    *,
    mesh: Mesh | None = None,
    device: jax.Device | None = None,
    dtype: Any = np.float32,
) -> tuple[parts.Model, dict[str, Any]]:
  """The policy of a training run, and the host's record beside it.

  It was trained on any mesh: here its parameters live where the caller says.

  Args:
    workdir: of the run.
    number: of the checkpoint; None: the newest.
    mesh: where parameters live; None: on one device.
    device: which one; None: the first.
    dtype: of the parameters; of a run with an adapter it is that of its base.

  Raises:
    CheckpointError: there is no such checkpoint, or it cannot be read.
    ConfigError: its tokenizer is that of another model.
  """
  device = device or jax.devices()[0]
  checkpoints = Checkpoints(workdir / 'checkpoints')
  try:
    known = checkpoints.numbers
    if not known:
      raise CheckpointError(
          f'{workdir} holds a run without a complete checkpoint; let it run'
          ' longer.'
      )
    if number is not None and number not in known:
      raise CheckpointError(
          f'{workdir} has no checkpoint {number}; known:'
          f' {", ".join(map(str, known))}.'
      )
    host = checkpoints.host(number)

    def read(config: TransformerConfig, shapes: Any) -> Any:
      places = (
          sharding.alone(shapes, device)
          if mesh is None
          else meshes.shardings(config, shapes, mesh)
      )
      like = {'params': sharding.placed(shapes, places)}
      return checkpoints.restore(like, number)['params']

    adapter = host.get('adapter')
    if adapter is None:
      config = TransformerConfig(**host['model'])
      params = read(config, names.shapes(config, dtype))
      tokenizer = run_tokenizer(workdir)
      model = parts.Model(config, params, tokenizer, str(workdir))
    else:
      base, _ = load(
          adapter['base'], mesh, dtype=parts.DTYPES[adapter['dtype']]
      )
      params = adapters.join(base, adapter, read)
      model = dataclasses.replace(base, params=params, path=str(workdir))
  finally:
    checkpoints.close()
  return model, host


def run_tokenizer(workdir: pathlib.Path) -> tokenizer_lib.Tokenizer:
  """The tokenizer of a run: its own, or that of the model it started from."""
  path = workdir / 'tokenizer'
  if not path.exists():
    name = resume.read_record(workdir / 'config.json')['model']['name']
    earlier = resume.split(name)
    if earlier is not None:
      return run_tokenizer(earlier[0])  # it went on from another run
    path = pretrained.resolve(name)
  return tokenizer_lib.load(path, pretrained.open_gguf(path))
