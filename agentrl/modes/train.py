"""mode='train': warm start, multi-turn RL with a growing horizon, evaluation.

A run that was killed continues when the same command is started again.
"""

import contextlib
import dataclasses
import functools
from typing import Any

import jax
import optax
from ml_collections import ConfigDict

from agentrl import metrics as metrics_lib, schedules
from agentrl.algos.hyperparams import Online
from agentrl.algos.online import ONLINE
from agentrl.batch import TokenBatch
from agentrl.config import modes
from agentrl.data import episodes as episodes_lib
from agentrl.data.tasks import TaskIterator
from agentrl.errors import ConfigError
from agentrl.models import value_head
from agentrl.modes import base, parts, resume
from agentrl.parallel import sharding
from agentrl.rollout import seeds
from agentrl.runtime.event_loop import Interrupted
from agentrl.training import (
    optim,
    programs as programs_lib,
    ranks,
    rl,
    state as state_lib,
    watch,
)
from agentrl.training.policy_update import UpdatePlan
from agentrl.training.programs import LossFn, Metrics
from agentrl.training.rl import Bookkeeping
from agentrl.training.state import TrainState
from agentrl.types import Episode, Group

_SHOWN = (
    'rollout/horizon',
    'rollout/return_mean',
    'rollout/success',
    'policy/entropy',
    'train/grad_norm',
    'time/step_s',
)


read = resume.read


def run(config: ConfigDict, workdir: str | None) -> None:
  """Trains as `config` says and leaves everything in `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  base.start(_Run, read(config), workdir)


def make_optimizer(
    wanted: modes.Train,
) -> tuple[optax.GradientTransformation, optax.Schedule]:
  """The optimizer of all networks, and the policy's learning rate by update."""
  algo, optimizer = wanted.algo, wanted.optim
  schedule = dict(
      warmup_steps=optimizer.warmup_steps,
      schedule=optimizer.schedule,
      total_steps=wanted.num_steps * algo.epochs * algo.minibatches,
  )
  # While a critic warms up, the policy stands still.
  frozen = 0
  if algo.CRITIC:
    frozen = algo.critic.warmup * algo.epochs * algo.minibatches
  learning_rate = optim.make_schedule(
      optimizer.lr, **schedule, frozen_steps=frozen
  )
  kind = dict(
      name=optimizer.name,
      b1=optimizer.b1,
      b2=optimizer.b2,
      momentum=optimizer.momentum,
  )
  tx = optim.make_optimizer(
      optimizer.lr,
      grad_clip=optimizer.grad_clip,
      weight_decay=optimizer.weight_decay,
      **kind,
      **schedule,
      frozen_steps=frozen,
  )
  if algo.CRITIC:
    tx = optim.with_critic(
        tx,
        optim.make_optimizer(
            algo.critic.lr, grad_clip=algo.critic.grad_clip, **kind
        ),
    )
  return tx, learning_rate


def bind_loss(hyperparams: Online) -> LossFn:
  """The algorithm's loss, its hyperparameters bound."""
  loss = ONLINE[hyperparams.name].loss
  return functools.partial(loss, hyperparams=hyperparams)


class _Run(base.Run):
  """One training run, from its parts to its summary."""

  wanted: modes.Train

  def run(self) -> None:
    wanted = self.wanted
    self.build_world(expert=wanted.warmstart.episodes > 0)
    self.build_policy(self._texts)
    self._prepare_rl()
    resumed = self.checkpoints.latest is not None
    books = self._restore() if resumed else None
    self.start_sampling(0 if books is None else books.policy_version)
    self.sampler = self.make_sampler(wanted.rollout.temperature)
    if books is None:
      books = self._warm_up()
    self._train(books)

  # Building the parts.

  def _texts(self) -> list[str]:
    if not self.wanted.warmstart.episodes:
      raise ConfigError(
          'A tiny policy needs warmstart.episodes: its tokenizer is trained on'
          " the expert's episodes. Where there is no expert it learns from a"
          ' file first: configs/textcraft_sft.py:data=FILE,model=NAME, and then'
          ' that workdir as model.name.'
      )
    return self.expert_texts(self.wanted.warmstart.horizon)

  def _prepare_rl(self) -> None:
    wanted = self.wanted
    self.tx, self.learning_rate = make_optimizer(wanted)
    self.loss = bind_loss(wanted.algo)
    self.advantages = jax.jit(
        functools.partial(
            ONLINE[wanted.algo.name].advantages, hyperparams=wanted.algo
        ),
        static_argnames='num_groups',
    )
    self.plan = UpdatePlan(
        wanted.algo,
        max_tokens=wanted.optim.max_tokens,
        seed=seeds.derive_seed(wanted.seed, 'rows'),
        max_context=wanted.rollout.max_context,
    )
    horizon = wanted.horizon
    self.horizon = schedules.HORIZONS[horizon.kind](
        horizon.turns, horizon.every
    )
    self.task_iterator = TaskIterator(
        self.train_tasks, seed=seeds.derive_seed(wanted.seed, 'tasks')
    )

  # Before RL.

  def _warm_up(self) -> Bookkeeping:
    """Evaluates, imitates the expert, evaluates again: step 0 of the run."""
    wanted = self.wanted
    params, version = self.model.params, 0
    if wanted.warmstart.episodes:
      self.evaluate('untrained', 0, version)
      params = self.warm_start(
          self.play_expert(wanted.warmstart.episodes, wanted.warmstart.horizon)
      )
      version += 1
      self.push(params, version)
    self.evaluate('before', 0, version)
    self.state, self.shardings = self._new_state(params)
    self.ref_params = self._reference()
    # The state has a copy: what it was made of may go.
    self.model = dataclasses.replace(self.model, params=self.state.params)
    books = Bookkeeping(
        step=0,
        policy_version=version,
        tasks=self.task_iterator.state(),
        horizon=self.horizon.init(),
        stats={},
        kl_coef=wanted.algo.kl_coef,
    )
    self._save(self.state, books)
    return books

  def _new_state(self, params: Any):
    """A state and its shardings; a critic starts from the policy."""
    algo = self.wanted.algo
    kind = algo.critic.kind if algo.CRITIC else None
    return state_lib.create(
        params,
        self.tx,
        self.mesh,
        critic=kind and value_head.init(kind, self.module, params),
        offload=self.offload,
    )

  def _reference(self) -> Any:
    """A copy of the starting policy, where the loss needs one."""
    if not self.wanted.algo.kl_coef:
      return None
    return self._placed(jax.tree.map(jax.numpy.copy, self.state.params))

  def _placed(self, ref_params: Any) -> Any:
    """The reference where it waits between its passes."""
    if 'reference' in self.wanted.mesh.offload:
      return sharding.to_host(ref_params)
    return ref_params

  # RL.

  def _train(self, books: Bookkeeping) -> None:
    wanted = self.wanted
    if self.first:
      # Of a run that was killed before its first checkpoint was complete.
      resume.discard_from(self.directory, books.step)
      self.writer = metrics_lib.Writer(
          self.directory,
          total=wanted.num_steps,
          start=books.step,
          shown=_SHOWN,
          console=self.console,
      )
      self.stack.callback(self.writer.close)
    self.task_iterator.restore(books.tasks)
    self.watch = watch.DeadPolicyWatch(self.model.config.vocab_size)
    self.state, books = rl.train(
        self.state,
        books,
        num_steps=wanted.num_steps,
        tasks_per_step=wanted.rollout.tasks_per_step,
        tasks=self.task_iterator,
        schedule=self.horizon,
        collect=self._collect_step,
        advantages=self.advantages,
        programs=programs_lib.compile_programs(
            self.module,
            self.loss,
            self.tx,
            self.mesh,
            self.state,
            self.shardings,
            temperature=wanted.rollout.temperature,
            base=self.model.base,
        ),
        plan=self.plan,
        ref_params=self.ref_params,
        learning_rate=self.learning_rate,
        push=self.push,
        record=self._record,
        save=self._save,
        save_every=wanted.checkpoint.every,
        stopped=functools.partial(ranks.interrupted, self.host),
    )
    self.checkpoints.wait()
    ranks.check(self.host)
    self.evaluate('after', books.step, books.policy_version)
    self.summarise('train', books.step, updates=int(self.state.step))

  def _collect_step(self, step, tasks, *, horizon, policy_version):
    play = parts.make_play(
        self.environment,
        self.agent,
        self.sampler,
        self.wanted.rollout,
        name=f'train-{step}',
        split='train',
        horizon=horizon,
        policy_version=policy_version,
    )
    return parts.collect_groups(
        self.host,
        self.console,
        f'step {step + 1}',
        tasks,
        self.wanted.rollout.group_size,
        play,
        self.wanted.rollout,
        seed=seeds.derive_seed(self.wanted.seed, 'train', step),
    )

  def _record(
      self,
      step: int,
      values: Metrics,
      groups: list[Group],
      batch: TokenBatch,
      suspects: list[int],
  ) -> None:
    values = values | self._sampler_metrics(groups)
    if self.first:
      if suspects:
        self._dump(
            step, [e for group in groups for e in group.episodes], suspects
        )
      self._write_episodes(step, groups, batch)
      self.writer.write(step, values | self.early_evals(step))
    warning = self.watch.see(values)
    if warning is not None:
      self.console.print(warning, highlight=False)
    self.totals['tokens'] += sum(
        len(e.tokens) for group in groups for e in group.episodes
    )
    every = self.wanted.eval.every
    if every and (step + 1) % every == 0 and step + 1 < self.wanted.num_steps:
      # The step is done and recorded: a signal that comes now ends this
      # evaluation, and the loop saves and stops by itself.
      with contextlib.suppress(Interrupted):
        self.evaluate(
            f'step_{step + 1}', step + 1, int(values['policy/version'])
        )

  def _write_episodes(
      self, step: int, groups: list[Group], batch: TokenBatch
  ) -> None:
    path = episodes_lib.step_path(self.directory, 'train', step)
    episodes_lib.write(
        path,
        [episode for group in groups for episode in group.episodes],
        tokens=self.wanted.rollout.save_tokens,
    )
    if self.wanted.rollout.save_tokens:
      # What was trained on, beside what was sampled: the inspector shows both.
      episodes_lib.write_learned(
          path,
          advantages=batch.advantages,
          old_logprobs=batch.old_logprobs,
          ref_logprobs=batch.ref_logprobs,
          shaped_rewards=batch.rewards
          if self.wanted.algo.shapes_rewards
          else None,
          returns=batch.returns,
          values=batch.values,
          # Numbered from 1: 0 is a token of no turn.
          turn_groups=batch.anchor_ids + 1,
      )

  def _dump(
      self, step: int, episodes: list[Episode], suspects: list[int]
  ) -> None:
    """Writes episodes, tokens and all, whose gradient was not finite."""
    path = self.directory / 'diverged' / f'{step:06d}.jsonl'
    episodes_lib.write(path, [episodes[row] for row in suspects])
    self.console.print(
        f'Step {step + 1} skipped an update: its gradient was not finite. The'
        f' episodes in question are in {path}.',
        highlight=False,
    )

  def _sampler_metrics(self, groups: list[Group]) -> Metrics:
    """What went wrong at the sampler in this step and was mended."""
    counts = self.sampler.counts
    names = ('retries', 'aborts', 'aborted_tokens')
    # Each process has asked for its share of the episodes.
    shares = ranks.gather(lambda: [{name: counts[name] for name in names}])
    metrics = {
        f'sampler/{name}': float(sum(share[name] for share in shares))
        for name in names
    }
    counts.clear()
    # Turns under other weights than the push before the step handed over.
    metrics['sampler/stale_turns'] = float(
        sum(
            turn.weight_version != str(episode.policy_version)
            for group in groups
            for episode in group.episodes
            for turn in episode.turns
        )
    )
    return metrics

  # Saving, the end.

  def _save(self, state: TrainState, books: Bookkeeping) -> None:
    self.save(state, dataclasses.asdict(books), ref_params=self.ref_params)

  def _restore(self) -> Bookkeeping:
    """Brings the newest checkpoint back, and sets later records aside."""
    fresh, self.shardings = self._new_state(self.model.params)
    # Two states at a time would not fit where one just does.
    like = state_lib.abstract(fresh)
    del fresh
    self.model = dataclasses.replace(self.model, params=None)
    self.state, self.ref_params, books = self.restore(
        like, reference=self.wanted.algo.kl_coef > 0
    )
    self.ref_params = self._placed(self.ref_params)
    self.model = dataclasses.replace(self.model, params=self.state.params)
    return Bookkeeping(**books)
