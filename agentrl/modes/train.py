"""mode='train': warm start, multi-turn RL with a growing horizon, evaluation.

A run that was killed continues when the same command is started again.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import optax

from agentrl import schedules
from agentrl.algos import online
from agentrl.config import doubts, mixture, modes
from agentrl.evaluation import evaluate
from agentrl.inference.sampler import Sampler
from agentrl.modes import (
    build,
    checkpoints,
    learning,
    session as session_lib,
    supplies,
)
from agentrl.modes.build import Arena, Run, Setup
from agentrl.modes.session import Session
from agentrl.parallel import distributed, ranks, sharding
from agentrl.rollout import collector as collector_lib, orders
from agentrl.rollout.sources import Source, Sources
from agentrl.rollout.supply import Supply
from agentrl.rollout.teacher import Teacher
from agentrl.runtime import workdir as workdir_lib
from agentrl.serving.start import Serving
from agentrl.serving.teacher import start_teacher
from agentrl.training import (
    compiled,
    optim,
    programs,
    rl,
    state as state_lib,
    watch,
)
from agentrl.training.policy_update import UpdatePlan
from agentrl.training.rl import LoopState
from agentrl.training.run_record import SMALL, WHOLE

_SHOWN = (
    'rollout/horizon',
    'rollout/return_mean',
    'rollout/success',
    'policy/entropy',
    'train/grad_norm',
    'time/step_s',
)


def _run(session: Session) -> None:
  config: modes.Train = session.config
  online.check(config.algo)
  for doubt in doubts.find(config):
    session.console.print(doubt, highlight=False, soft_wrap=True)
  for member in mixture.members(config):
    schedules.make(member.config.horizon)  # one's own is imported now
  setup = build.make_setup(
      session,
      expert=config.plays_expert,
      members=mixture.members(config),
  )
  run, params = build.make_run(setup, functools.partial(_texts, setup))
  tx, learning_rate = rl.make_optimizer(
      config.optim, config.algo, config.num_steps
  )
  sources = Sources(
      [_source(session, arena) for arena in run.arenas],
      config.rollout.tasks_per_step,
      in_turns=not config.rollout.ahead,
  )
  resumed = run.checkpoints.latest is not None
  evaluates = config.eval.num_tasks > 0
  warm = config.warmstart.episodes > 0 and not resumed
  planned = {
      learning.UNTRAINED: evaluates and warm and config.eval.untrained,
      learning.IMITATION: warm,
      learning.BEFORE: evaluates and run.checkpoints.latest in (None, 0),
      learning.LEARNING: True,
      learning.AFTER: evaluates,
  }
  phases = learning.Phases(
      session.console,
      [name for name, due in planned.items() if due],
      run.record.began,
  )
  if resumed:
    state = rl.new_state(run.network, params, tx, config.algo)
    # Two states at a time would not fit where one just does.
    like, params = state_lib.abstract(state), None
    del state
    state, ref_params, saved = checkpoints.restore(
        run, like, reference=config.algo.kl_coef > 0
    )
    loop = LoopState(**saved)
    applied = optim.updates(state.opt_state)
    _say_stretched(session, learning_rate, loop.step, applied)
    serving = learning.start_sampling(run, state.params, loop.policy_version)
  else:
    serving = learning.start_sampling(run, params, 0)
    params, version = learning.warm_up(run, serving, params, phases)
    # The state has a copy: what it was made of may go.
    state = rl.new_state(run.network, params, tx, config.algo)
    params = None
    ref_params = None
    if config.algo.kl_coef:
      ref_params = jax.tree.map(jax.numpy.copy, state.params)
    loop = LoopState(
        step=0,
        policy_version=version,
        tasks=sources.cursor(),
        horizon=sources.first_horizon(),
        stats={},
        kl_coef=config.algo.kl_coef,
    )
  if 'reference' in config.mesh.offload:
    ref_params = sharding.to_host(ref_params)
  sampler = serving.make_sampler(temperature=config.rollout.temperature)
  supply = supplies.make(run, sources, sampler, loop.policy_version)
  if supply is not None and not resumed:
    loop = dataclasses.replace(loop, tasks=supply.state())
  hooks = _Hooks(
      run,
      serving,
      sampler,
      ref_params,
      watch.DeadPolicyWatch(run.model.config.vocab_size),
      watch.CollapseWatch(config.gauges),
      _teacher(run),
      supply,
  )
  if not resumed:
    hooks.save(state, loop)  # what ends the evaluation loses no warm start
  if not loop.step:
    phases.begin(learning.BEFORE)
    learning.evaluate_all(
        run,
        serving,
        'before',
        0,
        loop.policy_version,
        checkpoint=0,
        evaluations=run.record.evaluations(),
    )
  phases.begin(learning.LEARNING)
  run.record.open(session.stack, config.num_steps, loop.step, shown=_SHOWN)
  hooks.recall()
  if resumed:
    if not hooks.done(loop.step):  # a run that ended here has more steps now
      run.record.rename('after', f'step_{loop.step}')
    # Stopped before the evaluation of its last step was done.
    hooks.evaluate(loop.step, loop.policy_version)
    learning.keep_best(run)
  # The first horizon may follow the evaluation before it, a later one that
  # which was missing and has just been played.
  loop = dataclasses.replace(loop, stats=loop.stats | hooks.held_out(loop.step))
  (supply or sources).restore(loop.tasks)
  if serving.engine is not None:
    serving.engine.compilations()  # what came before is no step's
  # What came before, and when, may decide last bits, but for a run that is to
  # give them again.
  few_shapes: Sequence[str] = programs.MICROBATCHED
  compiler = None
  if config.sampler.deterministic:
    few_shapes = ()
  elif distributed.count() == 1:  # else processes would choose differently
    compiler = session.stack.enter_context(compiled.beside())
  state, loop = rl.train(
      state,
      loop,
      num_steps=config.num_steps,
      sources=sources,
      update=rl.make_update(
          run.network,
          state,
          tx,
          UpdatePlan(
              config.algo,
              max_tokens=config.optim.max_tokens,
              seed=session.seed('rows'),
              max_context=config.rollout.max_context,
              episodes=config.episodes_per_step,
              gauges_every=config.gauges.every,
              simulated_s=config.optim.simulated_s,
          ),
          temperature=config.rollout.temperature,
          learning_rate=learning_rate,
          ref_params=ref_params,
          few_shapes=few_shapes,
          compiler=compiler,
      ),
      hooks=hooks,
      save_every=config.checkpoint.every,
      supply=supply,
  )
  run.checkpoints.wait()
  if supply is not None:
    supply.saved()
  ranks.check(session.loop)
  phases.begin(learning.AFTER)
  learning.evaluate_last(
      run, serving, loop.step, loop.policy_version, checkpoint=loop.step
  )
  learning.finish(run, 'train', loop.step, updates=int(state.step))


run = session_lib.command(_run)


def _say_stretched(
    session: Session, learning_rate: optax.Schedule, step: int, updates: int
) -> None:
  """Says how the rate of a run jumps that has another `num_steps` now.

  Args:
    session: of the run; its workdir still has the config of before.
    learning_rate: by update.
    step: rl steps done.
    updates: applied in them.
  """
  config = session.config
  path = session.directory / workdir_lib.CONFIG
  if not path.exists() or not 0 < step < config.num_steps or not updates:
    return
  before = workdir_lib.read_record(path).get('num_steps', config.num_steps)
  _, old = rl.make_optimizer(config.optim, config.algo, before)
  # The next update's, as it was to be and as it is.
  was, now = (float(rate(updates)) for rate in (old, learning_rate))
  if was != now:
    session.console.print(
        f'num_steps was {before} and is {config.num_steps}: a'
        f' {config.optim.schedule} learning rate follows the whole run, so the'
        f' rate of step {step + 1} is {now:.3g}, after'
        f' {float(old(updates - 1)):.3g} in step {step}. A run that had'
        f' num_steps={config.num_steps} from its start would differ.',
        highlight=False,
        soft_wrap=True,
    )


def _source(session: Session, arena: Arena) -> Source:
  """The tasks and the horizon of an environment of the run."""
  config = arena.config
  assert isinstance(config, modes.Train)
  names = (arena.name,) if arena.name else ()
  return Source(
      orders.make(
          config.tasks,
          arena.tasks,
          arena.environment,
          seed=session.seed('tasks', *names),
      ),
      schedules.make(config.horizon),
      arena.name,
      arena.weight,
  )


def _texts(setup: Setup) -> list[str]:
  horizon = setup.session.config.warmstart.horizon
  build.check_texts(setup.session.config)
  return [
      text
      for arena in setup.arenas
      if arena.weight
      for text in build.expert_texts(setup.session, arena, horizon)
  ]


def _teacher(run: Run) -> Teacher | None:
  """The teacher of the run, if its algorithm has one."""
  session, config = run.session, run.session.config
  options = config.algo.teacher_settings
  if options is None:
    return None
  session.console.print('Starting the teacher', highlight=False)
  return start_teacher(
      session.stack,
      session.loop,
      options,
      config.model,
      run.model.tokenizer,
      dtype=config.model.dtype,
      max_context=config.rollout.max_context,
      timeout_s=config.sampler.timeout_s,
      deterministic=config.sampler.deterministic,
      # With a hint there is one environment.
      prompt_ids=next(iter(run.collectors.values())).agent.prompt_ids,
  )


@dataclasses.dataclass(frozen=True)
class _Hooks(rl.Hooks):
  """Sampler, records and checkpoints of a run."""

  run: Run
  serving: Serving
  sampler: Sampler
  ref_params: Any
  dead: watch.DeadPolicyWatch
  collapse: watch.CollapseWatch
  teacher: Teacher | None = None
  supply: Supply | None = None

  def collect(self, step, shares, *, policy_version):
    jobs = [
        supplies.job(self.run, self.sampler, step, share, policy_version)
        for share in shares
    ]
    return collector_lib.run_jobs(jobs, f'step {step + 1}')

  def beside(self, work):
    # In this thread where nothing is played meanwhile.
    plays_on = self.supply is not None and self.supply.plays_on
    return self.run.session.loop.beside(work) if plays_on else work()

  def teach(self, batch, groups):
    if self.teacher is None:
      return batch
    episodes = [episode for group in groups for episode in group.episodes]
    width = batch.tokens.shape[1]
    own = ranks.own(episodes)
    score = lambda: self.run.session.loop.run(self.teacher.score(own, width))
    scored = ranks.gather(lambda: [score()])  # by process
    logprobs = np.zeros(batch.tokens.shape, np.float32)
    for index, rows in enumerate(scored):
      logprobs[index :: len(scored)] = rows
    return batch.replace(teacher_logprobs=logprobs)

  def push(self, params, version):
    learning.push(self.run, self.serving, params, version)

  def recall(self):
    """Lets the watches see the steps before a resume; they were said then."""
    for line in self.run.record.lines():
      self.dead.see(line)
      self.collapse.see(line)

  def record(self, rl_step):
    run, config = self.run, self.run.session.config
    metrics = rl_step.metrics | collector_lib.sampler_metrics(
        self.sampler, rl_step.groups, ranks
    )
    if (engine := self.serving.engine) is not None:
      metrics |= engine.compilations()
    run.record.write_step(
        rl_step,
        metrics,
        tokens=config.rollout.save_tokens,
        shaped=config.algo.shapes_rewards,
    )
    for warning in (self.dead.see(metrics), *self.collapse.see(metrics)):
      if warning is not None:
        run.session.console.print(warning, highlight=False)

  def evaluate(self, step, version):
    """Plays the panel that is due after `step` steps, unless it was played."""
    name = f'step_{step}'
    if (panel := self._due(step)) is not None:
      learning.evaluate_all(
          self.run,
          self.serving,
          name,
          step,
          version,
          checkpoint=step,
          panel=panel,
          evaluations=self.run.record.evaluations(panel),
      )
    keeps_best = self.run.session.config.checkpoint.keep_best
    return keeps_best and learning.best(self.run, step) == name

  def _due(self, step):
    """The panel that is played after `step` steps; None: there is none."""
    config = self.run.session.config
    # The first and the last have names of their own.
    if step == 0 or self.done(step):
      return None
    for panel, every in (
        (WHOLE, config.eval.every),
        (SMALL, config.eval.small.every),
    ):
      if every and step % every == 0:
        return panel
    return None

  def held_out(self, step):
    # The horizon may not follow the evaluation at the end of a shorter run: a
    # longer one has none there.
    if step and self._due(step) is None:
      return {}
    name = f'step_{step}' if step else 'before'
    metrics = {}
    for arena in self.run.arenas:
      start = f'{arena.name}/' if arena.name else ''
      for panel in (WHOLE, SMALL):
        evals = self.run.record.evaluations(panel)
        summary = evals.get(learning.entry_of(arena, name))
        if summary is not None:
          metrics |= evaluate.as_metrics(summary, f'{start}{panel}')
    return metrics

  def save(self, state, loop):
    learning.keep_best(self.run, loop.step)
    loop = dataclasses.asdict(loop)
    checkpoints.save(self.run, state, loop, ref_params=self.ref_params)
    keep = self.run.session.config.checkpoint.keep_episodes
    if keep is not None:
      # A run that goes on from this checkpoint reads none of them.
      self.run.record.drop_before(loop['step'] - keep)
    if self.supply is not None:
      self.supply.saved()

  def done(self, step: int) -> bool:
    """True if the run ends after `step` steps, which are recorded."""
    return step >= self.run.session.config.num_steps or self._spent

  @property
  def _spent(self) -> bool:
    tokens = self.run.session.config.num_tokens
    return 0 < tokens <= self.run.record.sampled_tokens

  def stopped(self):
    return self._spent or ranks.interrupted(self.run.session.loop)
