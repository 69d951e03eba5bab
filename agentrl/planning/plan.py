"""The memory and time of a run on its mesh, before there is a machine.

The mode's own steps are compiled for simulated devices, as many as `config.mesh`
has, and never run: no weights, no tokenizer and no server are needed, and no
array exists.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import huggingface_hub
import jax
import numpy as np
from jax.sharding import Mesh

from agentrl.algos import agentevol, dpo, online, sft
from agentrl.data import packing
from agentrl.models import lora as lora_lib, transformer, value_head, variants
from agentrl.models.config import TransformerConfig
from agentrl.models.options import Model, TrainModel
from agentrl.parallel import (
    compile_cache,
    mesh as mesh_lib,
    meshes,
    options,
    sharding,
)
from agentrl.planning import footprint
from agentrl.planning.footprint import Program, Size
from agentrl.runtime import workdir as workdir_lib
from agentrl.training import (
    adapters,
    checkpoint as checkpoint_lib,
    language_model,
    optim as optim_lib,
    programs as programs_lib,
    rl,
    state as state_lib,
)
from agentrl.weights import hf, names, pretrained


@dataclasses.dataclass(frozen=True)
class Work:
  """The part of a mode's config that decides its update.

  Attributes:
    loss: of the algorithm, its hyperparameters bound.
    tx: the optimizer of `Networks`.
    fields: of the batch that the loss reads, beside those of every batch.
    episodes: in a step.
    rows: packed rows of an update, if each episode is as long as it may be.
    length: tokens of a packed row.
    updates: in a step.
    passes: over all episodes before the first update, without a gradient. With
      a critic one of the reference alone is cheaper than it is counted.
    critic: kind of the critic, if there is one.
    reference: whether a frozen copy of the policy stays beside it.
    samples: whether the policy is sampled from.
    unit: what a step is called.
  """

  loss: programs_lib.LossFn
  tx: Any
  fields: tuple[str, ...]
  episodes: int
  rows: int
  length: int
  updates: int = 1
  passes: int = 0
  critic: str | None = None
  reference: bool = False
  samples: bool = True
  unit: str = 'update'


@dataclasses.dataclass(frozen=True)
class Plan:
  """The needs of each device; bytes unless said otherwise.

  Attributes:
    mesh: devices by axis.
    work: what was planned.
    held: by name, what outlives every program.
    waiting: by name, what is in the host's memory but for one program.
    gradients: accumulated in an update.
    engine: by name, what the embedded engine adds on the first device.
    size: of the microbatch that the config asks for.
    programs: by name, for this microbatch.
    runs: of each program in a step, if every episode is as long as it may be.
    room: for the microbatch: what is left of the memory.
    beside_engine: whether the engine's share was taken from it; False: there is
      none, or it leaves nothing.
    largest: the microbatch that fills the room; of no rows if none fits.
  """

  mesh: Mapping[str, int]
  work: Work
  held: dict[str, int]
  waiting: dict[str, int]
  gradients: int
  engine: dict[str, int]
  size: Size
  programs: dict[str, Program]
  runs: dict[str, int]
  room: int
  beside_engine: bool
  largest: Size

  @property
  def peak(self) -> int:
    """The trainer's bytes in the program that takes most."""
    return sum(self.held.values()) + max(
        program.bytes + (name != 'score') * self.gradients
        for name, program in self.programs.items()
    )


def find_shape(model: Model) -> TransformerConfig | None:
  """The shape of a model whose weights need not be there; None: unknown here.

  Raises:
    WeightsError: its config.json cannot be used.
    CheckpointError: the run that it names has no such checkpoint.
  """
  name = model.name
  run = workdir_lib.run_of(name)
  if run is not None:
    workdir_lib.check_checkpoint(*run)
    return checkpoint_lib.shape_of(*run)
  if pathlib.Path(name).exists() and not model.from_scratch:
    return pretrained.load_config(name)
  if name in variants.VARIANTS:
    size = model.vocab_size if isinstance(model, TrainModel) else None
    return variants.get(name, size)
  if name.count('/') == 1:  # the hub's, if it was downloaded before
    path = huggingface_hub.try_to_load_from_cache(name, 'config.json')
    if isinstance(path, str):
      return hf.load_config(pathlib.Path(path).parent)
  return None


def simulate(mesh: options.Mesh, programs: str | None) -> None:
  """Makes this process have the devices that a mesh asks for.

  To be called before anything asks jax for its devices.

  Args:
    mesh: an axis of -1 counts as 1.
    programs: where compiled ones are kept, see `compile_cache.use`.
  """
  compile_cache.use(programs)
  sizes = [getattr(mesh, axis) for axis in mesh_lib.AXES]
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update(
      'jax_num_cpu_devices', max(math.prod(max(size, 1) for size in sizes), 1)
  )


def make(mode: str, config: Any, shape: TransformerConfig, memory: int) -> Plan:
  """Plans a run.

  Args:
    mode: a key of WORK.
    config: its config.
    shape: the shape of the policy.
    memory: bytes of a device.

  Raises:
    ConfigError: the mesh does not divide the model, or episodes are longer than
      the model's positions.
  """
  work = WORK[mode](config)
  engine = _engine(config, shape) if work.samples else {}
  mesh = meshes.make(config.mesh, packing.LENGTHS)
  module = language_model.make_module(shape, config.model)
  params, base = _parameters(shape, config.model, mesh)
  critic = work.critic and jax.eval_shape(
      functools.partial(value_head.init, work.critic, module), params
  )
  state = state_lib.create_abstract(params, work.tx, mesh, critic=critic)
  compiled = programs_lib.compile_programs(
      module, work.loss, work.tx, state, base=base
  )
  shards = mesh_lib.batch_size(mesh)

  @functools.cache
  def batch(rows):
    size = Size(rows * shards, work.length)
    return footprint.batch_shapes(size, work.episodes, mesh, work.fields)

  @functools.cache
  def accumulate(rows):
    return footprint.accumulate(compiled, state, batch(rows))

  # Rows a shard: of a whole update, and of the config's microbatch.
  update = -(-work.rows // shards)
  limit = packing.most_rows(config.optim.max_tokens, work.length, shards)
  rows = min(limit // shards, update)
  pieces = lambda count: -(-count // (rows * shards))
  programs, runs = {}, {}
  if work.passes:
    programs['score'] = footprint.score(compiled, state, batch(rows))
    runs['score'] = work.passes * pieces(work.episodes)
  programs['accumulate'] = accumulate(rows)
  runs['accumulate'] = work.updates * pieces(work.rows)
  programs['apply'] = footprint.apply(compiled, state)
  runs['apply'] = work.updates

  held = {
      'frozen base': footprint.device_bytes(base),
      'parameters'
      if base is None
      else 'adapter': footprint.device_bytes(state.params),
      'critic': footprint.device_bytes(state.critic),
      'optimizer state': footprint.device_bytes(state.opt_state),
      'reference': footprint.device_bytes(state.params) * work.reference,
  }
  waiting = _offload(held, programs, config.mesh.offload)
  gradients = footprint.device_bytes(state_lib.gradients(state))
  room = memory - sum(held.values()) - gradients
  beside_engine = 0 < sum(engine.values()) < room
  room -= beside_engine * sum(engine.values())
  largest = footprint.largest(
      lambda rows: accumulate(rows).bytes,
      room,
      start=rows,
      most=update if room > 0 else 0,
  )
  return Plan(
      mesh=dict(mesh.shape),
      work=work,
      held={name: size for name, size in held.items() if size},
      waiting=waiting,
      gradients=gradients,
      engine=engine,
      size=Size(rows * shards, work.length),
      programs=programs,
      runs=runs,
      room=room,
      beside_engine=beside_engine,
      largest=Size(largest * shards, work.length),
  )


def _parameters(
    shape: TransformerConfig, model: TrainModel, mesh: Mesh
) -> tuple[Any, lora_lib.Base | None]:
  """Shapes of what is trained, and of what that adds to."""
  shapes = names.shapes(shape, np.float32)
  places = meshes.shardings(shape, shapes, mesh)  # refused if it cannot be
  if not model.lora.rank:
    return shapes, None
  adapters.check_targets(shape, model.lora)
  frozen = sharding.with_shardings(
      names.shapes(shape, language_model.DTYPES[model.dtype]), places
  )
  return _adapter(shapes, model), lora_lib.Base(frozen, model.lora.scale)


def _adapter(shapes: Any, model: TrainModel) -> Any:
  """Shapes of the adapter of a decoder with these."""
  return jax.eval_shape(
      functools.partial(lora_lib.init, model.lora, shapes), jax.random.key(0)
  )


def _offload(
    held: dict[str, int], programs: dict[str, Program], offload: Sequence[str]
) -> dict[str, int]:
  """Takes what waits on the host out of `held`, into the program that needs it.

  Returns:
    What waits there.
  """
  waiting = {}
  for who, name, program in (
      ('optimizer', 'optimizer state', 'apply'),
      ('reference', 'reference', 'score'),
  ):
    if who in offload:
      size = waiting[name] = held.pop(name)
      old = programs[program]
      programs[program] = old._replace(bytes=old.bytes + size)
  return waiting


def _engine(config: Any, shape: TransformerConfig) -> dict[str, int]:
  """The embedded engine's memory by name, all of it on one device."""
  max_context, sampler = config.rollout.max_context, config.sampler
  language_model.check_context(shape, 'rollout.max_context', max_context)
  if sampler.kind != 'embedded':
    return {}
  slots = sampler.num_slots(config.rollout.concurrency)
  weights, cache = served_bytes(config, shape, slots)
  return {'engine weights': weights, 'KV cache': cache}


def served_bytes(
    config: Any, shape: TransformerConfig, sequences: int = 1
) -> tuple[int, int]:
  """Bytes of a served policy: its weights, and its cache.

  Args:
    config: of a mode that samples.
    shape: of the policy.
    sequences: of `rollout.max_context` tokens that the cache holds.
  """
  dtype = language_model.DTYPES[config.model.dtype]
  cache = jax.eval_shape(
      functools.partial(
          transformer.init_cache,
          shape,
          sequences,
          config.rollout.max_context,
          dtype,
      )
  )
  params = jax.tree.leaves(names.shapes(shape, dtype))
  count = lambda arrays: sum(x.size * x.dtype.itemsize for x in arrays)
  return count(params), count(jax.tree.leaves(cache))


def pushed_bytes(config: Any, shape: TransformerConfig) -> int:
  """Bytes of a push of a policy that is trained: all weights, or its adapter."""
  if not config.sampler.push_lora:
    return served_bytes(config, shape)[0]
  adapter = _adapter(names.shapes(shape, np.float32), config.model)
  dtype = jax.numpy.dtype(language_model.DTYPES[config.model.dtype])
  return dtype.itemsize * sum(x.size for x in jax.tree.leaves(adapter))


def _train(config: Any) -> Work:
  algo = config.algo
  rows = config.episodes_per_step
  critic = algo.critic.kind if algo.CRITIC else None
  fields = ['anchor_ids', 'sampler_logprobs', 'advantages', 'returns']
  if algo.updates > 1 or algo.ratio == 'sampler':
    fields.append('old_logprobs')
  if algo.kl_coef:
    fields.append('ref_logprobs')
  if algo.TEACHER:
    fields.append('teacher_logprobs')
  if critic:
    fields += ['values', 'bootstrap_value']
  tx, _ = rl.make_optimizer(config.optim, algo, config.num_steps)
  return Work(
      loss=online.bind_loss(algo),
      tx=tx,
      fields=tuple(fields),
      episodes=rows,
      rows=-(-rows // algo.minibatches),
      length=packing.bucket_length(config.rollout.max_context),
      updates=algo.updates,
      passes=algo.scores + (algo.kl_coef > 0),
      critic=critic,
      reference=algo.kl_coef > 0,
      unit='rl step',
  )


def _offline(config: Any, loss: programs_lib.LossFn, **options: Any) -> Work:
  """Work of an update on a minibatch of whole demonstrations."""
  rate = optim_lib.Rate(config.optim.lr, 0, 'constant', total_steps=1)
  tx, _ = optim_lib.make(config.optim, rate)
  size = config.algo.minibatch_size
  options = dict(fields=('advantages',), episodes=size, rows=size) | options
  length = packing.bucket_length(config.rollout.max_context)
  return Work(loss=loss, tx=tx, **dict(length=length) | options)


def _sft(config: Any) -> Work:
  return _offline(config, sft.loss, samples=bool(config.eval.num_tasks))


def _dpo(config: Any) -> Work:
  algo = config.algo
  return _offline(
      config,
      functools.partial(dpo.loss, hyperparams=algo),
      # Both episodes of a pair lie in one row. The reference speaks before the
      # first update, and its log-probabilities are kept instead of it.
      fields=() if algo.reference_free else ('ref_logprobs',),
      episodes=2 * algo.minibatch_size,
      length=packing.bucket_length(2 * config.rollout.max_context),
      samples=bool(config.eval.num_tasks or config.explore.tasks),
  )


def _agentevol(config: Any) -> Work:
  # Each round starts from the same policy, which is kept.
  return _offline(config, agentevol.loss, reference=True)


WORK = {'train': _train, 'sft': _sft, 'dpo': _dpo, 'agentevol': _agentevol}
