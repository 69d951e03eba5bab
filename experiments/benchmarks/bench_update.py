"""Times the gradient of a microbatch of agents' episodes, part by part.

    python -m experiments.benchmarks.bench_update
    python -m experiments.benchmarks.bench_update --lora_ranks=16 --remat=full
    python -m experiments.benchmarks.bench_update --sampled=0.97  # nearly all

Random weights and random episodes of several turns, packed as in a run, of which
the largest microbatch is taken: with the defaults GRPO on BabyAI, a fifth of
whose tokens are sampled. Prints one JSON line for each rank, 0 is the full
model. `seconds` and `cpu_seconds` (of all threads: steadier beside other work):

  accumulate: the gradient, as an update computes it.
  decoder: that of the final states alone; the rest is the `head`: logits,
    log-probabilities, entropies.
  attention: that of the layers' attention over rows alone, without projections.
  apply: the optimizer.

`gflop` counts products in the compiled gradient, with what the compiler may
leave out at run time, and `gemm_share` is how near the gradient comes to the
time of a matrix product of as many. `temporary_gib` is the compiler's own,
`peak_gib` the most that the process held during the gradient.
"""

import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags

from agentrl.algos import grpo
from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.models import lora, transformer, variants
from agentrl.models.transformer import REMAT, Transformer
from agentrl.ops import attention
from agentrl.parallel import mesh as mesh_lib
from agentrl.planning import hlo
from agentrl.training import optim, programs as programs_lib, state as state_lib
from agentrl.types import TERMINATED, Episode, Group, Turn
from experiments.benchmarks import reference_rates

_MODEL = flags.DEFINE_string('model', 'smollm2-135m', 'Of models.variants.')
_RANKS = flags.DEFINE_list('lora_ranks', ['16', '0'], '0: the full model.')
_REMAT = flags.DEFINE_enum('remat', 'dots', list(REMAT), 'See model.remat.')
_TOKENS = flags.DEFINE_integer('max_tokens', 2048, 'Of a microbatch.')
_EPISODES = flags.DEFINE_integer('episodes', 16, 'Of a minibatch.')
_GROUP = flags.DEFINE_integer('group', 2, 'Of them, with one prompt.')
_PROMPT = flags.DEFINE_integer('prompt', 90, 'Tokens of a prompt.')
_TURNS = flags.DEFINE_integer('turns', 6, 'Most turns; the least is one.')
_SAMPLED = flags.DEFINE_float('sampled', 0.3, 'Share of sampled tokens a turn.')
_TURN = flags.DEFINE_integer('turn', 45, 'Tokens of a turn.')
_REPEATS = flags.DEFINE_integer('repeats', 3, 'Timed calls of each part.')


def play(vocab_size: int) -> Iterator[Group]:
  """Random groups whose episodes share a prompt."""
  rng = np.random.default_rng(0)
  new = max(round(_SAMPLED.value * _TURN.value), 1)
  turn = [True] * new + [False] * (_TURN.value - new)
  nothing = Turn('', '', None, '', 0.0, '', 0, 0, new, '', 0.0, 0.0)
  for task in range(_EPISODES.value // _GROUP.value):
    prompt = rng.integers(vocab_size, size=_PROMPT.value)
    episodes = []
    for replica in range(_GROUP.value):
      turns = int(rng.integers(1, _TURNS.value + 1))
      rest = rng.integers(vocab_size, size=turns * len(turn))
      tokens = np.concatenate([prompt, rest])
      mask = [False] * len(prompt) + turn * turns
      episodes.append(
          Episode(
              f'{task}-{replica}', '', task, '', 0, 0, turns, TERMINATED,
              False, (), (nothing,) * turns, tuple(tokens.tolist()),
              tuple(mask), (0.0,) * len(mask),
          )
      )  # fmt: skip
    yield Group(task, 0, tuple(episodes))


def largest(batch: TokenBatch) -> TokenBatch:
  """The largest microbatch of a batch."""
  rows = np.arange(len(batch.tokens))
  pieces = collate.microbatches(
      batch, rows, max_tokens=_TOKENS.value, share_prefixes=True
  )
  return max((piece for piece, _ in pieces), key=lambda x: x.tokens.size)


def attend(module: Transformer, piece: TokenBatch) -> Callable[[], jax.Array]:
  """The gradient of all layers' attention over the rows of a microbatch."""
  c = module.config
  rng = np.random.default_rng(0)
  draw = lambda heads: jnp.asarray(
      rng.normal(size=(*piece.tokens.shape, heads, c.head_dim)), module.dtype
  )
  args = draw(c.num_heads), draw(c.num_kv_heads), draw(c.num_kv_heads)

  def total(args):
    out = attention.causal(*args, jnp.asarray(piece.segment_ids))
    return jnp.sum(jnp.sin(out))

  @jax.jit
  def layers(args):
    def layer(args, _):
      grads = jax.grad(total)(args)
      return jax.tree.map(lambda x, g: x + 1e-3 * g, args, grads), None

    return jax.lax.scan(layer, args, length=c.num_layers)[0]

  return lambda: layers(args)


def time_parts(
    parts: dict[str, Callable[[], object]],
) -> dict[str, dict[str, float]]:
  """Median wall and CPU seconds of each, measured in turns."""
  samples: dict[str, list[tuple[float, float]]] = {name: [] for name in parts}
  for repeat in range(_REPEATS.value + 1):
    for name, run in parts.items():
      start = time.perf_counter(), time.process_time()
      jax.block_until_ready(run())
      stop = time.perf_counter(), time.process_time()
      if repeat:  # the first compiles
        samples[name].append((stop[0] - start[0], stop[1] - start[1]))
  medians = {
      name: [statistics.median(x) for x in zip(*pairs, strict=True)]
      for name, pairs in samples.items()
  }
  medians['head'] = [
      a - b
      for a, b in zip(medians['accumulate'], medians['decoder'], strict=True)
  ]
  return {
      kind: {name: round(pair[i], 3) for name, pair in medians.items()}
      for i, kind in enumerate(('seconds', 'cpu_seconds'))
  }


def peak_gib(run: Callable[[], object]) -> float | None:
  """The most memory that this process holds while `run` runs; None elsewhere."""
  status = pathlib.Path('/proc/self/status')
  if not status.exists():
    return None
  pathlib.Path('/proc/self/clear_refs').write_text('5')  # forget the peak
  jax.block_until_ready(run())
  lines = dict(x.split(':') for x in status.read_text().splitlines())
  return round(int(lines['VmHWM'].split()[0]) / 2**20, 2)


def measure(rank: int) -> dict:
  """The record of an adapter of a rank, or of the full model."""
  config = variants.get(_MODEL.value)
  module = Transformer(config, scan_layers=True, remat=_REMAT.value)
  params = transformer.init_params(module, jax.random.key(0))
  base = None
  if rank:
    adapter = lora.Lora(rank=rank)
    base = lora.Base(params, adapter.scale)
    params = lora.init(adapter, params, jax.random.key(1))
  mesh = mesh_lib.make_mesh(dict(data=1, fsdp=-1, tensor=1, sequence=1))
  tx = optim.make_optimizer(1e-5)
  state = state_lib.create(params, tx, mesh)
  del params
  loss = lambda outputs, batch, denominators: grpo.loss(
      outputs, batch, denominators, hyperparams=grpo.Hyperparams()
  )
  programs = programs_lib.compile_programs(module, loss, tx, state, base=base)

  batch = collate.collate(list(play(config.vocab_size)))
  rng = np.random.default_rng(1)
  draw = rng.normal(size=batch.tokens.shape).astype(np.float32)
  batch = batch.replace(advantages=draw)
  counts = programs_lib.denominators(batch, np.arange(len(batch.tokens)))
  piece = largest(batch)
  placed = state_lib.place(piece, mesh)
  grads = programs.zeros()

  @jax.jit
  def decoder(networks, base, piece):
    def total(networks):
      states = module.apply(
          lora.variables(networks.policy, base),
          piece.tokens,
          piece.positions,
          piece.segment_ids,
          prefix=piece.prefix,
      )
      return jnp.sum(jnp.sin(states.hidden))

    return jax.grad(total)(networks)

  def accumulate():
    nonlocal grads
    grads, *_ = programs.accumulate(state.networks, grads, placed, counts)
    return grads

  def apply():
    nonlocal state
    state, _ = programs.apply(state, grads)
    return state

  times = time_parts({
      'accumulate': accumulate,
      'decoder': lambda: decoder(state.networks, base, placed),
      'attention': attend(module, piece),
      'apply': apply,
  })
  peak = peak_gib(accumulate)
  gemm = reference_rates.matmul_gflops()
  lowered = programs.accumulate.lower(state.networks, grads, placed, counts)
  compiled = lowered.compile()
  flops = hlo.work(compiled.as_text()).flops
  tokens = piece.tokens.size + (
      0 if piece.prefix is None else piece.prefix.tokens.size
  )
  return dict(
      case='update',
      model=_MODEL.value,
      lora_rank=rank,
      remat=_REMAT.value,
      device=jax.devices()[0].device_kind,
      shape=piece.tokens.shape,
      prefixes=None if piece.prefix is None else piece.prefix.tokens.shape,
      tokens=tokens,
      sampled=int(piece.completion_mask.sum()),
      **times,
      gflop=round(flops / 1e9),
      gemm_gflops=round(gemm, 1),
      gemm_share=round(flops / 1e9 / gemm / times['seconds']['accumulate'], 3),
      temporary_gib=round(
          compiled.memory_analysis().temp_size_in_bytes / 2**30, 2
      ),
      peak_gib=peak,
  )


def main(argv):
  del argv
  for rank in _RANKS.value:
    print(json.dumps(measure(int(rank))), flush=True)


if __name__ == '__main__':
  app.run(main)
