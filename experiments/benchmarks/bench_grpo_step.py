r"""Times whole GRPO steps: sampling, reward, loss, gradient, AdamW, weight push.

    python -m experiments.benchmarks.bench_grpo_step
    python -m experiments.benchmarks.bench_grpo_step --models=tiny-4m \
        --trl=torch-env/bin/python --tunix=tunix-env/bin/python
    python -m experiments.benchmarks.bench_grpo_step --models=smollm2-135m \
        --lora_rank=16 --trl=torch-env/bin/python

One turn an episode, so that trainers without turns can do the same: for each of
`prompts` random prompts a group of completions of full length, one update on all
of them. It is the loop of a training run with its HTTP sampler; only the
environment is missing. Prints one JSON line a model. `peers` says how to get the
others, which take turns with ours, a step each; TRL's adapter is
peft's, and with one tunix is not started. `peak_gb` is the largest memory
of the process so far; ours holds trainer and engine.
"""

import asyncio
import contextlib
import functools
import json
import os
import resource
from collections.abc import Sequence

import jax
import numpy as np
from absl import app, flags

from agentrl.algos import grpo
from agentrl.data.tasks import TaskIterator
from agentrl.inference.sampler import Sampler
from agentrl.models import lora, transformer, variants
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from agentrl.parallel import mesh as mesh_lib
from agentrl.rollout.sources import Source, Sources
from agentrl.runtime.event_loop import EventLoop
from agentrl.schedules import fixed
from agentrl.serving.weight_sync import push as weight_sync
from agentrl.training import (
    optim,
    programs as programs_lib,
    rl,
    state as state_lib,
)
from agentrl.training.policy_update import UpdatePlan
from agentrl.types import TERMINATED, Episode, Group, Turn
from experiments.benchmarks import engines, peers

_MODELS = flags.DEFINE_list(
    'models', ['tiny-4m', 'smollm2-135m'], 'Names of models.variants.'
)
_PROMPTS = flags.DEFINE_integer('prompts', 4, 'Tasks of a step.')
_GROUP = flags.DEFINE_integer('group', 8, 'Completions of each.')
_PROMPT = flags.DEFINE_integer('prompt', 64, 'Tokens of a prompt.')
_NEW = flags.DEFINE_integer('new', 128, 'Tokens of a completion.')
_MAX_TOKENS = flags.DEFINE_integer('max_tokens', 8192, 'Of a microbatch.')
_RANK = flags.DEFINE_integer(
    'lora_rank', 0, 'Of an adapter of all projections; 0: the full model.'
)
_REPEATS = flags.DEFINE_integer('repeats', 5, 'Steps that count, of each side.')
_WARMUP = flags.DEFINE_integer('warmup', 2, 'Steps before, of ours.')


async def play(
    sampler: Sampler,
    vocab_size: int,
    tasks: Sequence[tuple[int, int]],
    *,
    policy_version: int,
) -> list[Group]:
  """A group of one-turn episodes for each task, as a rollout gives them."""

  async def episode(prompt: list[int], task: int, i: int) -> Episode:
    completion = await sampler.generate(
        prompt,
        max_new_tokens=_NEW.value,
        seed=1000 * policy_version + i,
        routing_key=f'{task}',
    )
    sampled = len(completion.tokens)
    assert sampled == _NEW.value
    turn = Turn(
        completion='',
        action='',
        parse_error=None,
        observation='',
        reward=len(set(completion.tokens)) + 0.01 * i,
        finish_reason=completion.finish_reason,
        prompt_tokens=completion.prompt_tokens,
        cached_tokens=completion.cached_tokens,
        completion_tokens=sampled,
        weight_version=completion.weight_version,
        sampler_s=completion.latency_s,
        env_s=0.0,
    )
    return Episode(
        episode_id=f'{task}.{i}',
        env='none',
        task_id=task,
        split='train',
        seed=i,
        policy_version=policy_version,
        horizon=1,
        stop_reason=TERMINATED,
        success=False,
        prompt=(),
        turns=(turn,),
        tokens=(*prompt, *completion.tokens),
        completion_mask=(False,) * len(prompt) + (True,) * sampled,
        sampler_logprobs=(0.0,) * len(prompt) + completion.logprobs,
    )

  async def group(ordinal: int, task: int) -> Group:
    rng = np.random.default_rng([policy_version, task])
    prompt = rng.integers(vocab_size, size=_PROMPT.value).tolist()
    episodes = await asyncio.gather(*(
        episode(prompt, task, i) for i in range(_GROUP.value)
    ))  # fmt: skip
    return Group(task, ordinal, tuple(episodes))

  return await asyncio.gather(*(group(*task) for task in tasks))


class Ours:
  """A run that makes one step at a call."""

  def __init__(self, stack: contextlib.ExitStack, config: TransformerConfig):
    module = Transformer(config, scan_layers=True, remat='dots')
    mesh = mesh_lib.make_mesh(dict(data=1, fsdp=-1, tensor=1, sequence=1))
    tx = optim.make_optimizer(1e-5)
    params, base = transformer.init_params(module, jax.random.key(0)), None
    if _RANK.value:
      adapter = lora.Lora(rank=_RANK.value)
      base = lora.Base(params, adapter.scale)
      params = lora.init(adapter, params, jax.random.key(1))
    self._state = state_lib.create(params, tx, mesh)
    rows = _PROMPTS.value * _GROUP.value
    engine, url = stack.enter_context(
        engines.serving(
            config,
            weight_sync.engine_layout(params, base=base),
            max_running=rows,
            max_len=_PROMPT.value + _NEW.value,
            slots=rows,
        )
    )
    del params
    self._event_loop = stack.enter_context(EventLoop())
    self._sampler = Sampler(
        self._event_loop.session, [url], temperature=1.0, timeout_s=600
    )
    self._push = weight_sync.EmbeddedPush(engine, base=base)
    self._vocab_size = config.vocab_size
    tasks = TaskIterator(range(1000), seed=0)
    sources = Sources([Source(tasks, fixed(1))], _PROMPTS.value)
    self._loop = rl.LoopState(
        step=0,
        policy_version=0,
        tasks=sources.cursor(),
        horizon=sources.first_horizon(),
        stats={},
    )
    hyperparams = grpo.Hyperparams()
    self._train = functools.partial(
        rl.train,
        sources=sources,
        update=rl.Update(
            programs_lib.compile_programs(
                module,
                functools.partial(grpo.loss, hyperparams=hyperparams),
                tx,
                self._state,
                base=base,
            ),
            UpdatePlan(hyperparams, max_tokens=_MAX_TOKENS.value, seed=0),
            jax.jit(
                functools.partial(grpo.advantages, hyperparams=hyperparams),
                static_argnames='num_groups',
            ),
            learning_rate=lambda update: 1e-5,
        ),
        hooks=self,
        save_every=10**6,
    )

  # What `rl.train` asks of a run.

  def collect(self, step, shares, *, policy_version):
    del step
    (share,) = shares
    groups = self._event_loop.run(
        play(
            self._sampler,
            self._vocab_size,
            share.tasks,
            policy_version=policy_version,
        )
    )
    return [groups]

  def push(self, params, version):
    self._event_loop.run(self._push(params, version))

  def record(self, rl_step):
    self._metrics = rl_step.metrics

  def held_out(self, step):
    return {}  # nothing is evaluated

  def save(self, state, loop):
    pass

  def stopped(self):
    return False

  def __call__(self) -> dict[str, float]:
    self._state, self._loop = self._train(
        self._state, self._loop, num_steps=self._loop.step + 1
    )
    names = ('collect', 'update', 'push')
    return dict(
        seconds=self._metrics['time/step_s'],
        **{f'{n}_s': self._metrics[f'time/{n}_s'] for n in names},
        peak_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
    )


def bench(model: str) -> dict:
  """All sides of a model."""
  config = variants.get(model)
  sizes = dict(
      prompts=_PROMPTS.value,
      group=_GROUP.value,
      prompt=_PROMPT.value,
      new=_NEW.value,
  )
  rivals = ['trl', 'tunix']
  if _RANK.value:
    sizes['lora_rank'], rivals = _RANK.value, ['trl']
  with contextlib.ExitStack() as stack:
    ours = Ours(stack, config)
    sides = {'ours': ours}
    for peer in peers.start(stack, model, config, rivals):
      sides[peer.name] = lambda peer=peer: peer.ask('grpo', **sizes)
    for name, run in sides.items():
      for _ in range(_WARMUP.value if name == 'ours' else 1):
        run()
    runs = peers.alternate(sides, _REPEATS.value)
  result = dict(
      case='grpo_step',
      model=model,
      device=jax.devices()[0].device_kind,
      cores=os.cpu_count(),
      **sizes,
  )
  for name, side in runs.items():
    result[name] = {
        key: peers.spread([run[key] for run in side]) for key in side[0]
    }
    result[name]['times_as_long'] = (
        result[name]['seconds']['median'] / result['ours']['seconds']['median']
    )
  return result


def main(argv):
  del argv
  for model in _MODELS.value:
    print(json.dumps(bench(model)), flush=True)


if __name__ == '__main__':
  app.run(main)
