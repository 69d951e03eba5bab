"""A network with its tokenizer, and the functions that load one.

- `load_policy`: by the name that a config gives, one of the next two;
- `load_checkpoint`: that of a training run;
- `load_pretrained`: a directory, a GGUF file, a model of the hub;
- `load_run_adapter`: the adapter of a run without its base;
- `init_random`: a new one, for a tokenizer.
"""

import dataclasses
import functools
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from agentrl.errors import CheckpointError, ConfigError, WeightsError
from agentrl.models import lora as lora_lib, transformer
from agentrl.models.config import TransformerConfig
from agentrl.models.options import Lora, TrainModel
from agentrl.models.transformer import Transformer
from agentrl.parallel import meshes, ranks, sharding
from agentrl.runtime import workdir as workdir_lib
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.tokenizer import Tokenizer
from agentrl.training import adapters
from agentrl.training.checkpoint import Checkpoints
from agentrl.weights import names, peft, pretrained

DTYPES = {'float32': jnp.float32, 'bfloat16': jnp.bfloat16}


@dataclasses.dataclass(frozen=True)
class LanguageModel:
  """A network and its tokenizer.

  Attributes:
    config: the decoder's shape.
    params: trainer layout; with a base, an adapter.
    tokenizer: its ids are rows of the embedding.
    path: where both came from.
    base: frozen, see `adapters`; None without an adapter.
    lora: the adapter's settings.
  """

  config: TransformerConfig
  params: Any
  tokenizer: Tokenizer
  path: str
  base: lora_lib.Base | None = None
  lora: Lora = Lora()

  def __post_init__(self):
    if self.tokenizer.vocab_size > self.config.vocab_size:
      raise ConfigError(
          f'The tokenizer of {self.path} has {self.tokenizer.vocab_size} ids,'
          f' its embedding only {self.config.vocab_size} rows: they belong to'
          ' different models. Put the files of one model there.'
      )


def make_module(config: TransformerConfig, model: TrainModel) -> Transformer:
  """The trainer's module of a decoder of this shape."""
  return Transformer(
      config,
      scan_layers=True,
      remat=model.remat,
      dtype=DTYPES[model.dtype],
  )


def check_context(config: TransformerConfig, name: str, length: int) -> None:
  """Refuses rows longer than the model's positions.

  Rotary scalings that follow the length of a row ('dynamic', 'longrope') begin
  there: the network trained on such rows would differ from the one that is
  served.

  Args:
    config: the decoder's shape.
    name: of the config field that asks for them.
    length: tokens of the longest row.
  """
  if length > config.max_positions:
    raise ConfigError(
        f'{name}={length} exceeds the {config.max_positions} positions of the'
        ' model; lower it, or raise max_position_embeddings in the'
        " model's config.json if its rotary scaling was made for more."
    )
  if length > config.max_row:
    raise ConfigError(
        f'{name}={length} exceeds {config.max_row} tokens: longer rows of this'
        ' model are rotated by another set of frequencies, from their first'
        ' token on. Lower it, or write the list long_factor over short_factor'
        " in the model's config.json: then all rows have that set."
    )


def load_policy(
    name: str, mesh: Mesh | None = None, *, dtype: Any = np.float32
) -> tuple[LanguageModel, str]:
  """A policy and the version of its weights.

  Args:
    name: workdir of a training run (its newest checkpoint is taken; one of an
      adapter is merged into its base), its checkpoints/N or checkpoints/best, a
      folder of an adapter in peft's format (merged likewise), or what
      `pretrained.resolve` knows: a known name, a Hugging Face directory, a
      .gguf file, a hub name.
    mesh: where its parameters live; None: on one device, or NumPy arrays.
    dtype: of its parameters; of a run with an adapter it is that of its base.

  Raises:
    AgentrlError: there is no such model, or it cannot be read.
  """
  ranks.check_devices()
  run = workdir_lib.run_of(name)
  if run is None and peft.base_of(name) is not None:
    return _load_adapted(pathlib.Path(name), mesh, dtype=dtype), 'default'
  if run is None:
    return load_pretrained(name, mesh, dtype=dtype), 'default'
  workdir, number = run
  model, host = load_checkpoint(workdir, number, mesh=mesh, dtype=dtype)
  return model, str(host['books']['policy_version'])


def _load_adapted(
    directory: pathlib.Path, mesh: Mesh | None, *, dtype: Any
) -> LanguageModel:
  """A model with the adapter of a folder merged into it."""
  name = peft.base_of(directory)
  assert name is not None  # see `load_policy`
  record: dict[str, Any] = {}
  exported = directory / workdir_lib.EXPORTED
  if exported.is_file():  # one of ours knows its base
    record = workdir_lib.read_record(exported).get('adapter', {})
    dtype = DTYPES[record['dtype']] if record else dtype
  base, _ = load_policy(name, mesh, dtype=dtype)
  adapters.check_base(base.params, record, str(directory))
  lora, adapter = peft.load_adapter(directory, base.config)
  if mesh is not None:
    places = meshes.shardings(base.config, adapter, mesh)
    adapter = jax.tree.map(sharding.put_array, adapter, places)
  params = lora_lib.merge(adapter, lora_lib.Base(base.params, lora.scale))
  return dataclasses.replace(base, params=params, path=str(directory))


class RunAdapter(NamedTuple):
  """The adapter of a run's checkpoint.

  Attributes:
    config: shape of its base.
    lora: its options.
    params: its matrices.
    record: its description, see `adapters.describe`.
    host: the host's record of the checkpoint.
  """

  config: TransformerConfig
  lora: Lora
  params: Any
  record: dict[str, Any]
  host: dict[str, Any]


def load_run_adapter(
    workdir: pathlib.Path, number: int | None, device: jax.Device
) -> RunAdapter:
  """The adapter of a training run alone; its base is not read.

  Raises:
    CheckpointError: there is no such checkpoint, or it cannot be read.
    ConfigError: the run trained no adapter.
  """
  with Checkpoints(workdir / 'checkpoints') as checkpoints:
    workdir_lib.check_number(checkpoints.numbers, workdir, number)
    host = checkpoints.host(number)
    record = host.get('adapter')
    if record is None:
      raise ConfigError(
          f'The run in {workdir} trained a whole model and no adapter: leave'
          ' export.adapter out.'
      )
    config = TransformerConfig(**host['model'])
    lora, shapes = adapters.described(record, names.shapes(config, np.float32))
    places = sharding.single_device(shapes, device)
    params = _restored(checkpoints, number, shapes, places)
  return RunAdapter(config, lora, params, record, host)


def load_checkpoint(
    workdir: pathlib.Path,
    number: int | None = None,
    *,
    mesh: Mesh | None = None,
    device: jax.Device | None = None,
    dtype: Any = np.float32,
) -> tuple[LanguageModel, dict[str, Any]]:
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
  with Checkpoints(workdir / 'checkpoints') as checkpoints:
    workdir_lib.check_number(checkpoints.numbers, workdir, number)
    host = checkpoints.host(number)

    def read(config: TransformerConfig, shapes: Any) -> Any:
      places = (
          sharding.single_device(shapes, device or jax.devices()[0])
          if mesh is None
          else meshes.shardings(config, shapes, mesh)
      )
      return _restored(checkpoints, number, shapes, places)

    adapter = host.get('adapter')
    if adapter is None:
      config = TransformerConfig(**host['model'])
      params = read(config, names.shapes(config, dtype))
      tokenizer = load_run_tokenizer(workdir)
      return LanguageModel(config, params, tokenizer, str(workdir)), host
    base = _load_base(workdir, adapter, mesh)
    params = adapters.join(base.config, base.params, adapter, read)
    return dataclasses.replace(base, params=params, path=str(workdir)), host


def _restored(
    checkpoints: Checkpoints, number: int | None, shapes: Any, places: Any
) -> Any:
  """The parameters of a checkpoint, on devices of the caller's choice."""
  like = {'params': sharding.with_shardings(shapes, places)}
  return checkpoints.restore(like, number)['params']


def _load_base(
    workdir: pathlib.Path, adapter: dict[str, Any], mesh: Mesh | None
) -> LanguageModel:
  """The model that a run's adapter adds to."""
  name = adapter['base']
  _check_start(workdir, name, 'and its adapter adds to that: put it back')
  return load_policy(name, mesh, dtype=DTYPES[adapter['dtype']])[0]


def _check_start(workdir: pathlib.Path, name: str, rest: str) -> None:
  """Names the model that a run started from, where it is not there any more."""
  if pathlib.Path(name).is_absolute() and not pathlib.Path(name).exists():
    raise CheckpointError(
        f'The run in {workdir} started from {name}, which is not there, {rest}.'
    )


def load_run_tokenizer(workdir: pathlib.Path) -> tokenizer_lib.Tokenizer:
  """The tokenizer of a run or of an exported adapter.

  An adapter has that of its model; a run of before may have that of its start alone.
  """
  path = workdir / 'tokenizer'
  base = peft.base_of(workdir)
  if base is not None:
    path = pretrained.resolve(base)
  elif not path.exists():
    name = workdir_lib.read_record(workdir / workdir_lib.CONFIG)['model'][
        'name'
    ]
    earlier = workdir_lib.run_of(name)
    if earlier is not None:
      return load_run_tokenizer(earlier[0])  # it went on from another run
    try:
      path = pretrained.resolve(name)
    except WeightsError as error:
      raise CheckpointError(
          f'The run in {workdir} has the tokenizer of the model that it started'
          f' from, and {name!r} is not here: put it back, or put its tokenizer'
          f' files in {workdir / "tokenizer"}.'
      ) from error
  return tokenizer_lib.load(path, pretrained.open_gguf(path))


def load_pretrained(
    name: str, mesh: Mesh | None = None, *, dtype: Any = jnp.float32
) -> LanguageModel:
  """A pretrained model: a known name, a directory, a .gguf or a hub name.

  Args:
    name: of the model.
    mesh: where its parameters live; None: NumPy arrays.
    dtype: of its parameters.

  Raises:
    AgentrlError: it cannot be read, or does not fit on the mesh.
  """
  path = pretrained.resolve(name)
  reader = pretrained.open_gguf(path)
  place = None
  if mesh is not None:
    place = functools.partial(meshes.shardings, mesh=mesh)
  config, params = pretrained.load(
      path, dtype=dtype, reader=reader, place=place
  )
  return LanguageModel(
      config, params, tokenizer_lib.load(path, reader), str(path)
  )


def init_random(
    config: TransformerConfig,
    tokenizer: Tokenizer,
    *,
    seed: int,
    path: str,
    mesh: Mesh,
) -> LanguageModel:
  """A random model of this shape, for this tokenizer's vocabulary.

  Each device of the mesh draws its own slices of the parameters; they are the
  same numbers on any mesh.
  """
  module = Transformer(config, scan_layers=True)
  init = functools.partial(transformer.init_params, module)
  key = jax.random.key(seed)
  shardings = meshes.shardings(config, jax.eval_shape(init, key), mesh)
  params = jax.jit(init, out_shardings=shardings)(key)
  return LanguageModel(config, params, tokenizer, path)
