"""The plan that `--dry_run` prints: tables, and what does not fit."""

import math
from collections.abc import Iterator
from typing import Any

import rich.console
import rich.table

from agentrl.errors import ConfigError
from agentrl.planning import card, cluster as cluster_lib, plan as plan_lib
from agentrl.planning.cluster import Cluster
from agentrl.planning.plan import Plan

_GIB = 1 << 30
MEMORY_GIB = 80.0


def show(
    mode: str,
    config: Any,
    memory_gib: float | None,
    host_devices: int | None = None,
) -> None:
  """Plans a run and prints what it needs.

  Args:
    mode: that learns.
    config: its config.
    memory_gib: of a device; None: `MEMORY_GIB`.
    host_devices: of a machine; None: `cluster.HOST_DEVICES`.

  Raises:
    ConfigError: the mesh does not divide the model, or trainer and servers do
      not fit the card that they share.
    WeightsError: the model's config.json cannot be used.
  """
  console = rich.console.Console(highlight=False, soft_wrap=True)
  shape = plan_lib.find_shape(config.model)
  if shape is None:
    console.print(
        f'\nNo plan: the shape of {config.model.name!r} is not known here. Name'
        ' a variant of agentrl/models/variants.py or a folder with a'
        ' config.json.'
    )
    return
  plan_lib.simulate(config.mesh, config.compile_cache)
  memory_gib = MEMORY_GIB if memory_gib is None else memory_gib
  total = int(memory_gib * _GIB)
  shared = card.shares(config, shape, card.Card(total, free=total))
  if shared is not None:
    memory_gib = shared.trainer / _GIB
  plan = plan_lib.make(mode, config, shape, int(memory_gib * _GIB))
  console.print(
      f'\nPlan of {config.model.name}, {shape.num_params:,} parameters, on'
      f' {_mesh(plan)}: compiled for a CPU, not run.\n'
  )
  tables, said = _tables(plan), list(remarks(plan, config, memory_gib))
  if shape.num_experts:
    said.append(
        f'Each token goes through all {shape.num_experts} experts of a layer,'
        ' as on CPUs and GPUs; on a TPU it goes through'
        f' {shape.num_experts_per_token}, and their products are fewer.'
    )
  if mode == 'train':
    machines = cluster_lib.make(
        config, shape, plan, host_devices or cluster_lib.HOST_DEVICES
    )
    if machines.several:
      tables += [_machines(machines), _sent(machines)]
      said += cluster_remarks(machines)
  for table in tables:
    console.print(table)
    console.print()
  for line in said:
    console.print(f'- {line}')
  if shared is not None:
    console.print(f'- {shared.words}')
    if shared.fault:
      raise ConfigError(shared.fault)


def _tables(plan: Plan) -> list[rich.table.Table]:
  tables = [_memory(plan), _work(plan)]
  if any(p.work.collectives for p in plan.programs.values()):
    tables.append(_collectives(plan))
  return tables


def _mesh(plan: Plan) -> str:
  count = math.prod(plan.mesh.values())
  axes = ', '.join(f'{axis} {size}' for axis, size in plan.mesh.items())
  return f'{count} device{"s" * (count > 1)} ({axes})'


def _memory(plan: Plan) -> rich.table.Table:
  table = _table('memory of a device', 'GiB')
  row = lambda name, size: table.add_row(name, f'{size / _GIB:,.2f}')
  for name, size in plan.held.items():
    row(name, size)
  row('gradients', plan.gradients)
  rows, length = plan.size
  for name, program in plan.programs.items():
    of = '' if name == 'apply' else f' {rows} x {length:,} tokens'
    row(f'{name}{of}: activations and temporaries', program.bytes)
  row("the trainer's peak", plan.peak)
  for name, size in plan.waiting.items():
    row(f"{name}, in the host's memory", size)
  for name, size in plan.engine.items():
    row(f'{name}, first device only', size)
  return table


def _work(plan: Plan) -> rich.table.Table:
  unit = plan.work.unit
  table = _table(
      'work of a device',
      f'runs per {unit}',
      'TFLOP per run',
      f'TFLOP per {unit}',
  )
  total = 0.0
  for name, program in plan.programs.items():
    flops, runs = program.work.flops / 1e12, plan.runs[name]
    total += runs * flops
    table.add_row(name, f'{runs}', _number(flops), _number(runs * flops))
  table.add_row('together', '', '', _number(total))
  return table


def _collectives(plan: Plan) -> rich.table.Table:
  unit = plan.work.unit
  table = _table('collectives of a device', f'per {unit}', f'GiB per {unit}')
  counts: dict[tuple[str, int], list[int]] = {}
  for name, program in plan.programs.items():
    for collective in program.work.collectives:
      sums = counts.setdefault((collective.kind, collective.devices), [0, 0])
      sums[0] += plan.runs[name] * collective.count
      sums[1] += plan.runs[name] * collective.bytes
  for (kind, devices), (count, size) in counts.items():
    name = f'{kind} among {devices}'
    table.add_row(name, f'{count:,}', f'{size / _GIB:,.2f}')
  return table


def _machines(cluster: Cluster) -> rich.table.Table:
  table = _table('machines', 'hosts', 'parts', 'GiB of each', 'GiB of a host')
  known = lambda x: '?' if x is None else f'{x:,}'
  size = lambda x: f'{x / _GIB:,.2f}' if x else ''
  for side in cluster.sides:
    parts = f'{known(side.count)} {side.each}{"s" * (side.count != 1)}'
    table.add_row(
        side.name,
        known(side.hosts),
        parts,
        size(side.bytes),
        size(side.host_bytes),
    )
  return table


def _sent(cluster: Cluster) -> rich.table.Table:
  table = _table('between machines', 'GiB per rl step')
  for name, size in cluster.sent:
    table.add_row(name, f'{size / _GIB:,.3f}')
  table.add_row('together', f'{sum(x.bytes for x in cluster.sent) / _GIB:,.3f}')
  return table


def cluster_remarks(cluster: Cluster) -> Iterator[str]:
  """Sentences about the machines."""
  yield (
      'Between machines: as if every episode filled rollout.max_context, turns'
      ' growing evenly. Collectives of devices come on top, where an axis of'
      ' the mesh spans hosts; a host also holds programs and the pages of what'
      ' it reads.'
  )
  for side in cluster.sides:
    if side.count is None:
      yield (
          'The router of sampler.router knows its servers: weights are counted'
          ' for one.'
      )
    elif side.name == 'inference' and side.each == 'server':
      yield (
          'A server needs its weights and every episode that goes on at a time,'
          ' if all are as long as they may be; with less it makes some wait. It'
          ' may have several devices (--tp-size).'
      )


def _number(x: float) -> str:
  return f'{x:,.0f}' if x >= 100 else f'{x:.3g}'


def _table(*columns: str) -> rich.table.Table:
  first, *rest = columns
  table = rich.table.Table(first, box=None, pad_edge=False)
  for column in rest:
    table.add_column(column, justify='right')
  return table


def remarks(plan: Plan, config: Any, memory_gib: float) -> Iterator[str]:
  """Sentences about what the tables leave out."""
  work = plan.work
  yield (
      f'Counts per {work.unit} are for episodes as long as rollout.max_context:'
      f' {work.updates} update{"s" * (work.updates > 1)} of {work.rows} rows,'
      f' {work.length:,} tokens each.'
  )
  if config.agent.context.kind != 'full':
    yield (
        f'agent.context.kind={config.agent.context.kind!r} gives an episode'
        ' several segments, each a row of its own; here it counts as one.'
    )
  yield from _fit(plan, config, memory_gib)
  if plan.engine and not plan.beside_engine:
    slots = config.sampler.num_slots(config.rollout.concurrency)
    yield (
        'The embedded engine does not fit: it keeps a whole copy of the weights'
        f' and {slots} sequences on one device, on any mesh.'
        " Use sampler.kind='sglang', or lower sampler.max_running and"
        ' rollout.max_context.'
    )
  yield (
      'Bytes, products and collectives are those of the CPU compiler, which'
      ' reduces whole gradients where others reduce and scatter, and keeps a'
      ' block of attention scores where a GPU may fuse them.'
  )
  if config.model.dtype == 'bfloat16':
    yield (
        'It computes bfloat16 in float32: temporaries and collectives are'
        ' overestimated.'
    )
  if -1 in vars(config.mesh).values():
    yield 'An axis of config.mesh that is -1, the rest, counts as 1 here.'


def _fit(plan: Plan, config: Any, memory_gib: float) -> Iterator[str]:
  """Which microbatch fits, or why none does."""
  need = plan.programs['accumulate'].bytes
  where = f'{memory_gib:.4g} GiB'
  if plan.beside_engine:
    where += ' beside the embedded engine'
  missing = plan.programs['apply'].bytes - plan.room
  if 0 < missing and plan.room > 0:
    yield (
        f'The optimizer does not fit {where}: {missing / _GIB:,.1f} GiB are'
        ' missing while it is applied. Raise mesh.fsdp or mesh.tensor.'
    )
  if plan.room <= 0:
    yield (
        f'The state does not fit {where}: {-plan.room / _GIB:,.1f} GiB are'
        ' missing. Raise mesh.fsdp or mesh.tensor.'
    )
  elif not plan.largest.rows:
    yield (
        f'No microbatch fits {where}: {plan.room / _GIB:,.1f} GiB are left for'
        f' one row of {plan.work.length:,} tokens a shard. Raise mesh.sequence,'
        ' mesh.tensor or mesh.fsdp, or lower rollout.max_context'
        + ('.' if config.model.remat == 'full' else "; set model.remat='full'.")
        + (
            " With sampler.kind='sglang' there is no engine to leave room for."
            if plan.beside_engine
            else ''
        )
    )
  else:
    rows, length = plan.largest
    whole = ' (a whole update)' if rows >= plan.work.rows else ''
    yield (
        f'The largest microbatch that fits {where}: {rows} rows of'
        f' {length:,} tokens{whole}, optim.max_tokens={rows * length}.'
    )
    if need > plan.room:
      yield (
          f'optim.max_tokens={config.optim.max_tokens} does not fit:'
          f' {(need - plan.room) / _GIB:,.1f} GiB are missing.'
      )
