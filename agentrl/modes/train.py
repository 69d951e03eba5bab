"""mode='train': warm start, multi-turn RL with a growing horizon, evaluation.

A run that was killed continues when the same command is started again.
"""

import contextlib
import dataclasses
import functools
import json
import pathlib
import sys
import time
from typing import Any

import jax
import rich.console
from ml_collections import ConfigDict

from agentrl import metrics as metrics_lib
from agentrl.batch import TokenBatch
from agentrl.data import episodes as episodes_lib
from agentrl.data.tasks import TaskIterator
from agentrl.errors import ConfigError
from agentrl.models import value_head, variants
from agentrl.modes import evaluate, parts, resume, settings, warmstart
from agentrl.modes.host import Host, Interrupted, make_workdir
from agentrl.parallel import mesh as mesh_lib
from agentrl.rollout import seeds
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import optim, rl, state as state_lib, step
from agentrl.training.checkpoint import Checkpoints
from agentrl.training.rl import Bookkeeping
from agentrl.training.state import TrainState
from agentrl.types import Group

_SHOWN = (
    'rollout/horizon',
    'rollout/return_mean',
    'rollout/success',
    'policy/entropy',
    'train/grad_norm',
    'time/step_s',
)


def run(config: ConfigDict, workdir: str | None) -> None:
  """Trains as `config` says and leaves everything in `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  wanted = settings.read_train(config)
  directory = make_workdir(workdir)
  resume.keep_config(config, directory / 'config.json')
  with contextlib.ExitStack() as stack:
    host = stack.enter_context(Host())
    try:
      _Run(wanted, directory, host, stack).run()
    except Interrupted:
      print(
          'Stopped. The same command continues from the last checkpoint in'
          f' {directory / "checkpoints"}.'
      )
      sys.exit(130)


class _Run:
  """One training run, from its parts to its summary."""

  def __init__(
      self,
      wanted: settings.Train,
      directory: pathlib.Path,
      host: Host,
      stack: contextlib.ExitStack,
  ):
    self.wanted = wanted
    self.directory = directory
    self.host = host
    self.stack = stack
    self.console = rich.console.Console()
    self.began = time.monotonic()
    # Kept in every checkpoint beside the loop's own bookkeeping.
    self.totals = {'wall_s': 0.0, 'tokens': 0.0}
    self.evals: dict[str, Any] = {}

  def run(self) -> None:
    wanted = self.wanted
    self.mesh = _make_mesh(wanted.mesh)
    self.checkpoints = Checkpoints(
        self.directory / 'checkpoints', keep=wanted.checkpoint.keep
    )
    self.stack.callback(self.checkpoints.close)
    self.environment = self.stack.enter_context(
        parts.Environment(
            self.host, wanted.env, expert=wanted.warmstart.episodes > 0
        )
    )
    self.train_tasks = self.environment.tasks('train')
    # Refused now rather than after an hour.
    self.environment.panel(wanted.eval.split, wanted.eval.num_tasks)
    self.model = self._model()
    self.agent = parts.make_agent(
        wanted.env.name, wanted.agent, self.model.tokenizer
    )
    self.module = self.model.module(wanted.model)
    self._prepare_rl()
    resumed = self.checkpoints.latest is not None
    books = self._restore() if resumed else None
    self._start_sampling(0 if books is None else books.policy_version)
    if books is None:
      books = self._warm_up()
    self._train(books)

  # Building the parts.

  def _model(self) -> parts.Model:
    """The pretrained model, or a random one with a tokenizer of its own."""
    name = self.wanted.model.name
    if not self.wanted.model.from_scratch:
      self.console.print(f'Loading {name}')
      return parts.load_model(name)
    path = self.directory / 'tokenizer'
    shape = variants.get(name)
    if not path.exists():
      self.console.print(f'Training a tokenizer of {shape.vocab_size} tokens')
      warmstart.train_tokenizer(
          self.host,
          self.environment,
          self.wanted,
          shape.vocab_size,
          console=self.console,
      ).save(path)
    return parts.new_model(
        shape,
        tokenizer_lib.load(path),
        seed=seeds.derive_seed(self.wanted.seed, 'init'),
        path=str(path),
    )

  def _prepare_rl(self) -> None:
    wanted = self.wanted
    algo, optimizer = wanted.algo, wanted.optim
    updates = wanted.num_steps * algo.epochs * algo.minibatches
    schedule = dict(
        warmup_steps=optimizer.warmup_steps,
        schedule=optimizer.schedule,
        total_steps=updates,
    )
    # While a critic warms up, the policy stands still.
    frozen = 0
    if algo.critic is not None:
      frozen = algo.critic.warmup * algo.epochs * algo.minibatches
    self.learning_rate = optim.make_schedule(
        optimizer.lr, **schedule, frozen_steps=frozen
    )
    betas = dict(b1=optimizer.b1, b2=optimizer.b2)
    self.tx = optim.make_optimizer(
        optimizer.lr,
        grad_clip=optimizer.grad_clip,
        weight_decay=optimizer.weight_decay,
        **betas,
        **schedule,
        frozen_steps=frozen,
    )
    if algo.critic is not None:
      self.tx = optim.with_critic(
          self.tx,
          optim.make_optimizer(
              algo.critic.lr, grad_clip=algo.critic.grad_clip, **betas
          ),
      )
    self.loss = functools.partial(
        algo.module.loss, knobs=algo.knobs, use_kl=algo.kl == 'loss'
    )
    self.advantages = jax.jit(
        functools.partial(algo.module.advantages, knobs=algo.knobs),
        static_argnames='num_groups',
    )
    self.plan = rl.UpdatePlan(
        epochs=algo.epochs,
        minibatches=algo.minibatches,
        max_tokens=optimizer.max_tokens,
        seed=seeds.derive_seed(wanted.seed, 'rows'),
        ratio=algo.ratio,
        kl=algo.kl,
        kl_estimator=algo.knobs.kl_estimator,
        kl_target=algo.kl_target,
        kl_horizon=algo.kl_horizon,
        ties=algo.ties,
        refill_rounds=algo.refill_rounds,
        truncated=algo.truncated,
        overlong_buffer=algo.overlong_buffer,
        max_context=wanted.rollout.max_context,
    )
    self.task_iterator = TaskIterator(
        self.train_tasks, seed=seeds.derive_seed(wanted.seed, 'tasks')
    )

  def _start_sampling(self, version: int) -> None:
    wanted = self.wanted
    self.serving = parts.start_serving(
        self.stack,
        self.host,
        self.model,
        sampler=wanted.sampler,
        max_context=wanted.rollout.max_context,
        dtype=wanted.model.dtype,
        seed=seeds.derive_seed(wanted.seed, 'engine'),
        version=version,
    )
    self.sampler, self.eval_sampler = (
        parts.make_sampler(
            self.host,
            self.serving.urls,
            wanted.sampler,
            temperature=temperature,
        )
        for temperature in (
            wanted.rollout.temperature,
            wanted.eval.temperature,
        )
    )
    if wanted.sampler.kind == 'sglang':
      # A server that was started by somebody else may hold any weights.
      self._push(self.model.params, version)

  # Before RL.

  def _warm_up(self) -> Bookkeeping:
    """Evaluates, imitates the expert, evaluates again: step 0 of the run."""
    wanted = self.wanted
    params, version = self.model.params, 0
    if wanted.warmstart.episodes:
      self._evaluate('untrained', 0, version)
      params = self._warm_start()
      version += 1
      self._push(params, version)
    self._evaluate('before', 0, version)
    self.state, self.shardings = self._new_state(params)
    self.ref_params = self._reference()
    books = Bookkeeping(
        step=0,
        policy_version=version,
        tasks=self.task_iterator.state(),
        horizon=wanted.horizon.init(),
        stats={},
        kl_coef=wanted.algo.kl_coef,
    )
    self._save(self.state, books)
    return books

  def _new_state(self, params: Any):
    """A state and its shardings; a critic starts from the policy."""
    critic = self.wanted.algo.critic
    return state_lib.create(
        params,
        self.tx,
        self.mesh,
        critic=critic and value_head.init(critic.kind, self.module, params),
    )

  def _reference(self) -> Any:
    """A copy of the starting policy, where the loss needs one."""
    if not self.wanted.algo.kl_coef:
      return None
    return jax.tree.map(jax.numpy.copy, self.state.params)

  def _warm_start(self) -> Any:
    """Parameters that imitate the expert."""
    wanted = self.wanted.warmstart
    played = warmstart.play_expert(
        self.host,
        self.environment,
        self.agent,
        self.wanted,
        wanted.episodes,
        max_context=self.wanted.rollout.max_context,
        console=self.console,
    )
    chosen = warmstart.solved(played, self.console, horizon=wanted.horizon)
    episodes_lib.write(self.directory / 'episodes' / 'warmstart.jsonl', chosen)
    params, tokens = warmstart.imitate(
        self.model.params,
        chosen,
        self.wanted,
        module=self.module,
        mesh=self.mesh,
        directory=self.directory,
        console=self.console,
        check=self.host.check,
    )
    self.totals['tokens'] += tokens
    return params

  # RL.

  def _train(self, books: Bookkeeping) -> None:
    wanted = self.wanted
    self.writer = metrics_lib.Writer(
        self.directory,
        total=wanted.num_steps,
        start=books.step,
        shown=_SHOWN,
        console=self.console,
    )
    self.stack.callback(self.writer.close)
    self.task_iterator.restore(books.tasks)
    self.state, books = rl.train(
        self.state,
        books,
        num_steps=wanted.num_steps,
        tasks_per_step=wanted.rollout.tasks_per_step,
        tasks=self.task_iterator,
        schedule=wanted.horizon,
        collect=self._collect_step,
        advantages=self.advantages,
        steps=step.make_steps(
            self.module,
            self.loss,
            self.tx,
            self.mesh,
            self.state,
            self.shardings,
            temperature=wanted.rollout.temperature,
        ),
        plan=self.plan,
        ref_params=self.ref_params,
        learning_rate=self.learning_rate,
        push=self._push,
        record=self._record,
        save=self._save,
        save_every=wanted.checkpoint.every,
        stopped=lambda: self.host.interrupted,
    )
    self.checkpoints.wait()
    if self.host.interrupted:
      raise Interrupted
    self._evaluate('after', books.step, books.policy_version)
    self._summarise(books)

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

  def _push(self, params: Any, version: int) -> None:
    self.host.run(self.serving.push(params, version))

  def _record(
      self,
      step: int,
      values: step.Metrics,
      groups: list[Group],
      batch: TokenBatch,
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
          shaped_rewards=batch.rewards if self.plan.shapes else None,
          returns=batch.returns,
          values=batch.values,
          # Numbered from 1: 0 is a token of no turn.
          turn_groups=batch.anchor_ids + 1,
      )
    self.totals['tokens'] += sum(
        len(e.tokens) for group in groups for e in group.episodes
    )
    self.writer.write(step, values)
    every = self.wanted.eval.every
    if every and (step + 1) % every == 0 and step + 1 < self.wanted.num_steps:
      # The step is done and recorded: a signal that comes now ends this
      # evaluation, and the loop saves and stops by itself.
      with contextlib.suppress(Interrupted):
        self._evaluate(
            f'step_{step + 1}', step + 1, int(values['policy/version'])
        )

  # Evaluation, saving, the end.

  def _evaluate(self, name: str, step: int, version: int) -> None:
    wanted = self.wanted.eval
    if not wanted.num_tasks:
      return
    play = parts.make_play(
        self.environment,
        self.agent,
        self.eval_sampler,
        self.wanted.rollout,
        name=f'eval-{name}',
        split=wanted.split,
        horizon=wanted.horizon,
        policy_version=version,
    )
    result = evaluate.run_panel(
        self.host,
        self.environment,
        play,
        wanted,
        self.wanted.rollout,
        self.console,
        name=f'evaluation {name}',
    )
    evaluate.write_episodes(
        self.directory,
        name if name == 'untrained' else f'{step:06d}',
        result,
        tokens=self.wanted.rollout.save_tokens,
    )
    self.evals[name] = result.summary
    self.console.print(evaluate.describe(name, result.summary), highlight=False)

  def _save(self, state: TrainState, books: Bookkeeping) -> None:
    now = time.monotonic()
    self.totals['wall_s'] += now - self.began
    self.began = now
    resume.save(
        self.checkpoints,
        state,
        self.ref_params,
        {
            'books': dataclasses.asdict(books),
            'evals': self.evals,
            'totals': self.totals,
            'model': dataclasses.asdict(self.model.config),
        },
    )

  def _restore(self) -> Bookkeeping:
    """Brings the newest checkpoint back, and sets later records aside."""
    fresh, self.shardings = self._new_state(self.model.params)
    self.state, self.ref_params, host = resume.restore(
        self.checkpoints, fresh, reference=self.wanted.algo.kl_coef > 0
    )
    self.model = dataclasses.replace(self.model, params=self.state.params)
    self.evals, self.totals = host['evals'], host['totals']
    books = Bookkeeping(**host['books'])
    lines = resume.discard_from(self.directory, books.step)
    self.console.print(
        f'Continuing after step {books.step}'
        + (f'; {lines} later lines of metrics set aside' if lines else '')
    )
    return books

  def _summarise(self, books: Bookkeeping) -> None:
    summary = {
        'mode': 'train',
        'steps': books.step,
        'wall_s': self.totals['wall_s'] + time.monotonic() - self.began,
        'tokens': int(self.totals['tokens']),
        'updates': int(self.state.step),
        'eval': self.evals,
    }
    path = self.directory / 'summary.json'
    path.write_text(json.dumps(summary, indent=2) + '\n')
    self.console.print(
        f'Done in {metrics_lib.duration(summary["wall_s"])}; see {path}',
        highlight=False,
    )


def _make_mesh(mesh: settings.Mesh):
  try:
    return mesh_lib.make_mesh(dataclasses.asdict(mesh))
  except ValueError as error:
    raise ConfigError(f'config.mesh: {error}') from error
