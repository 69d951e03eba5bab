"""Step seconds and cost of a 7B run on eight H100, on paper.

    python -m experiments.2026-11-paper-7b.estimate

Compiles the run's own update for eight simulated devices (`--dry_run` does the
same), counts its work, and divides by the rates below. Prints the tables of
README.md. No such run has been made.
"""

import dataclasses
import math

from absl import app

from agentrl.models.config import TransformerConfig
from agentrl.modes import reading
from agentrl.planning import plan as plan_lib
from agentrl.planning.plan import Plan
from configs import textcraft_grpo

GPUS = 8
# NVIDIA's data sheet of the H100 SXM: bf16 without sparsity, HBM3, and NVLink,
# whose 900 GB/s are both directions together.
FLOPS, HBM, NVLINK = 989e12, 3.35e12, 450e9
EPISODES = 32 * 8
HORIZONS = (10, 20, 30)
# Of the run: so many rl steps at each horizon.
RECIPE = {10: 100, 20: 100, 30: 150}


@dataclasses.dataclass(frozen=True)
class Assumptions:
  """What nobody has measured on this machine with this code."""

  prompt: int  # tokens before the first turn
  completion: int  # sampled tokens of a turn
  observation: int  # tokens that answer it
  turns: float  # of an episode, as a share of the horizon
  filled: float  # share of packed rows that is not padding
  compute: float  # share of the bf16 rate in the trainer, recomputing included
  overlap: float  # share of the collectives that hides behind compute
  decode: float  # share of the memory bandwidth while decoding
  push: float  # bytes/s of weights to the servers
  env: float  # environment steps a second
  rest_s: float  # of a step: collating, metrics, starting what is next
  price: float  # dollars a GPU and hour


ASSUMED = {
    'low': Assumptions(
        *(800, 200, 80, 1.0, 0.75, 0.20, 0.0, 0.40, 0.77e9, 1000, 5.0, 4.0)
    ),
    'likely': Assumptions(
        *(600, 100, 40, 0.7, 0.85, 0.35, 0.5, 0.60, 2e9, 3800, 2.0, 2.5)
    ),
    'high': Assumptions(
        *(450, 60, 30, 0.5, 0.95, 0.50, 1.0, 0.75, 5e9, 10000, 1.0, 2.0)
    ),
}


@dataclasses.dataclass(frozen=True)
class Step:
  """Seconds of an rl step, and its tokens."""

  tokens: float
  sample_s: float
  score_s: float
  update_s: float
  push_s: float
  rest_s: float

  @property
  def seconds(self) -> float:
    return (
        self.sample_s + self.score_s + self.update_s + self.push_s + self.rest_s
    )


def estimate(
    plan: Plan,
    horizon: int,
    shape: TransformerConfig,
    a: Assumptions,
    *,
    gpus: int = GPUS,
    episodes: int = EPISODES,
) -> Step:
  """One rl step.

  Args:
    plan: of the trainer; its programs speak of one microbatch.
    horizon: turns allowed.
    shape: of the model.
    a: what is assumed.
    gpus: on which it learns and samples in turn.
    episodes: of a step.
  """
  turns = a.turns * horizon
  episode = a.prompt + turns * (a.completion + a.observation)
  numbers = shape.num_params
  tokens = episodes * min(episode, plan.work.length)
  # Sampling ends with the longest episode, which takes all turns; meanwhile a
  # GPU decodes those of its episodes that still go on, reading its weights and
  # what they have so far for every token.
  alive = episodes / gpus * a.turns
  length = tokens / episodes / 2
  # Bytes of a token, in bfloat16: keys and values.
  keys = 2 * 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim
  token_s = (2 * numbers + alive * length * keys) / (a.decode * HBM)
  fill_s = 2 * numbers * tokens / gpus / (a.compute * FLOPS)
  env_s = horizon * episodes * a.turns / a.env
  sample_s = horizon * a.completion * token_s + fill_s + env_s

  plan_gpus = math.prod(plan.mesh.values())

  def seconds(name: str, passes: int = 1) -> float:
    work = plan.programs[name].work
    # A microbatch has the rows of all GPUs that the plan is of.
    pieces = passes * tokens / a.filled / plan.size.tokens
    pieces *= plan_gpus / gpus
    # A ring: all-reduce sends everything twice.
    sent = sum(
        c.bytes * (1 + (c.kind == 'all-reduce')) * (c.devices - 1) / c.devices
        for c in work.collectives
    )
    compute_s, sent_s = work.flops / (a.compute * FLOPS), sent / NVLINK
    hidden = min(a.overlap * sent_s, compute_s)
    return pieces * (compute_s + sent_s - hidden)

  return Step(
      tokens=tokens,
      sample_s=sample_s,
      score_s=seconds('score', passes=plan.work.passes),
      # The optimizer is bound by memory: it reads and writes all it holds.
      update_s=seconds('accumulate')
      + plan.work.updates * 2 * sum(plan.held.values()) / HBM,
      # Written to memory once, and read from it by the servers.
      push_s=2 * 2 * numbers / a.push,
      rest_s=a.rest_s,
  )


def main(argv):
  del argv
  config = textcraft_grpo.get_config('model=qwen2.5-7b')
  config.mesh.fsdp = GPUS
  wanted = reading.read(config)
  plan_lib.simulate(wanted.mesh, wanted.compile_cache)
  shape = plan_lib.find_shape(wanted.model)
  plan = plan_lib.make('train', wanted, shape, 80 << 30)
  print("The trainer's peak:", f'{plan.peak / 2**30:.1f} GiB a GPU\n')
  print('| assumed | low | likely | high |\n|---|---|---|---|')
  for field in dataclasses.fields(Assumptions):
    values = (f'{getattr(a, field.name):g}' for a in ASSUMED.values())
    print(f'| {field.name} | {" | ".join(values)} |')
  print(
      '\n| speed | horizon | tokens | sampling | scoring | update | push |',
      end='',
  )
  print(' rest | step | tokens/s and GPU | $ per 1,000 steps |')
  print('|---' * 11 + '|')
  totals = []
  for name, assumed in ASSUMED.items():
    seconds = 0.0
    for horizon in HORIZONS:
      step = estimate(plan, horizon, shape, assumed)
      seconds += RECIPE[horizon] * step.seconds
      parts = (step.sample_s, step.score_s, step.update_s, step.push_s)
      cells = ' | '.join(f'{part:.0f}' for part in (*parts, step.rest_s))
      cost = 1000 * step.seconds / 3600 * GPUS * assumed.price
      print(
          f'| {name} | {horizon} | {step.tokens:,.0f} | {cells} |'
          f' {step.seconds:.0f} s | {step.tokens / step.seconds / GPUS:,.0f} |'
          f' {cost:,.0f} |'
      )
    hours = seconds / 3600
    cost = hours * GPUS * assumed.price
    totals.append(f'{name}: {hours:.1f} hours, {cost:,.0f} dollars')
  print(f'\nThe {sum(RECIPE.values())} steps of the config:', '; '.join(totals))


if __name__ == '__main__':
  app.run(main)
