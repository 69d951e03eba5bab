r"""Times episodes over HTTP, and the same loop on other systems, in turns.

    python -m experiments.benchmarks.bench_multiturn
    python -m experiments.benchmarks.bench_multiturn --models=tiny-4m \
        --transformers=torch-env/bin/python --tunix=tunix-env/bin/python
    python -m experiments.benchmarks.bench_multiturn --models=smollm2-135m \
        --cases=generate --transformers=torch-env/bin/python

`peers.py` says how to make those environments. Cases, all in float32 with
random weights, and no token that ends a completion:

  generate: 1 and 16 prompts of 64 tokens, 128 sampled tokens each.
  turns: 16 episodes of 10 turns, a turn 60 observed and 30 sampled tokens.

Our side is the sampler's client and the embedded engine behind HTTP in this
process, which keeps the prefixes; the others read all of an episode again in
every turn. All rows of a turn are asked at once, and the next turn begins when
the last has answered, as a loop over batches has it.

Prints one JSON line a case. `cold_s` is our first run, with its compilation;
`runs` are later ones, after at most `--warmup` more: medians and ranges of
seconds and of generated tokens per second, and the median of each turn.
`prefilled` are the prompt tokens that were computed, `least` those that must be:
every observed token once. `times_as_long` is the peer's median over ours.
`programs` were compiled in runs that count, and should be 0.
"""

import contextlib
import dataclasses
import json
import os
from typing import Any

import jax
from absl import app, flags

from agentrl.inference.sampler import Sampler
from agentrl.models import transformer, variants
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from agentrl.runtime.event_loop import EventLoop
from experiments.benchmarks import engines, loops, peers

_MODELS = flags.DEFINE_list(
    'models', ['tiny-4m', 'smollm2-135m'], 'Names of models.variants.'
)
_CASES = flags.DEFINE_list('cases', ['generate', 'turns'], 'Which cases.')
_REPEATS = flags.DEFINE_integer('repeats', 3, 'Runs that count, of each side.')
_WARMUP = flags.DEFINE_integer(
    'warmup', 4, 'Most runs after the cold one; one that compiles nothing ends.'
)


def bench(
    case: loops.Case,
    config: TransformerConfig,
    params: Any,
    rivals: list[peers.Peer],
) -> dict[str, Any]:
  """All sides of one case."""
  with contextlib.ExitStack() as stack:
    engine, url = stack.enter_context(
        engines.serving(
            config,
            params,
            max_running=case.batch,
            max_len=case.length,
            slots=2 * case.batch,
        )
    )
    host = stack.enter_context(EventLoop())
    sampler = Sampler(host.session, [url], temperature=1.0, timeout_s=600)
    numbers = iter(range(10**6))

    def ours() -> dict[str, Any]:
      run = next(numbers)
      ask = lambda row, i, turn: sampler.generate(
          row,
          max_new_tokens=case.new,
          seed=1000 * turn + i,
          routing_key=f'{run}-{i}',
      )
      return host.run(loops.play(ask, case, config.vocab_size, run))

    cold_s = sum(ours()['turn_s'])
    engines.warm_up(engine, ours, _WARMUP.value)
    task = dataclasses.asdict(case)
    sides = {'ours': ours}
    for peer in rivals:
      peer.ask('play', **task, warm=True)
      sides[peer.name] = lambda peer=peer: peer.ask('play', **task)
    compiled = engines.num_compiled(engine)
    runs = peers.alternate(sides, _REPEATS.value)
    compiled = engines.num_compiled(engine) - compiled
  sides = {name: loops.summary(case, side) for name, side in runs.items()}
  loops.compare(sides, 'ours')
  last = runs['ours'][-1]
  sides['ours'] |= dict(
      prefilled=last['prompted'] - last['cached'],
      least=case.batch * case.turns * case.observation,
      cached_share=last['cached'] / last['prompted'],
      programs=compiled,
  )
  return dict(cold_s=cold_s, runs=_REPEATS.value) | sides


def main(argv):
  del argv
  device = jax.devices()[0].device_kind
  for name in _MODELS.value:
    config = variants.get(name)
    params = transformer.init_params(Transformer(config), jax.random.key(0))
    with contextlib.ExitStack() as stack:
      rivals = peers.start(stack, name, config, ('transformers', 'tunix'))
      for kind in _CASES.value:
        for case in loops.CASES[kind]:
          about = dict(case=kind, model=name, device=device)
          about |= dict(cores=os.cpu_count()) | dataclasses.asdict(case)
          print(
              json.dumps(about | bench(case, config, params, rivals)),
              flush=True,
          )


if __name__ == '__main__':
  app.run(main)
