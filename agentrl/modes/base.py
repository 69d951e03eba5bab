"""What the modes that learn have in common: a run, from its parts to its end."""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import rich.console

from agentrl import config as config_lib, metrics as metrics_lib
from agentrl.batch import TokenBatch
from agentrl.data import episodes as episodes_lib
from agentrl.errors import AgentrlError, CheckpointError, DivergedError
from agentrl.evaluation import evaluate as evaluation
from agentrl.models import variants
from agentrl.modes import (
    checkpoints as checkpoints_lib,
    evaluate,
    parts,
    resume,
    warmstart,
)
from agentrl.parallel import distributed
from agentrl.rollout import seeds
from agentrl.runtime import lock
from agentrl.runtime.event_loop import EventLoop, Interrupted, make_workdir
from agentrl.serving import remote, start as serving
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import adapters, checkpoint, compile_cache, meshes, ranks
from agentrl.training.checkpoint import Checkpoints
from agentrl.training.state import TrainState
from agentrl.types import Episode


def start(
    run: type['Run'],
    wanted: Any,
    workdir: str | None,
) -> None:
  """Runs `run` as `wanted` says; the same command continues it.

  Args:
    run: the mode's class.
    wanted: its config; the workdir keeps it.
    workdir: gets all that the run leaves.

  Raises:
    AgentrlError: something that the user can mend.
  """
  compile_cache.use(wanted.compile_cache)
  ranks.join(os.environ, wanted.mode, ready=True)
  directory = make_workdir(workdir)
  try:
    with contextlib.ExitStack() as stack:
      if distributed.is_first():
        take = lambda: stack.enter_context(lock.hold(directory))
      else:
        take = lambda: None
      ranks.same(take)
      host = stack.enter_context(EventLoop())
      run(wanted, directory, host, stack).run()
  # Only now is a checkpoint complete that was being written.
  except Interrupted:
    print(f'Stopped. {resume.way_on(directory)}')
    sys.exit(130)
  except DivergedError as error:
    raise DivergedError(f'{error} {resume.way_out(directory)}') from error
  except (OSError, AgentrlError) as error:
    if directory.is_dir():
      raise
    raise CheckpointError(
        f'{directory} was deleted while the run wrote to it, and all that it'
        f' had left with it ({error}).'
    ) from error


class Run:
  """One run of a mode that learns.

  `wanted` is the mode's config, a `config.modes.Learning`.
  """

  def __init__(
      self,
      wanted: Any,
      directory: pathlib.Path,
      host: EventLoop,
      stack: contextlib.ExitStack,
  ):
    """Keeps the config and looks at what the workdir holds.

    Args:
      wanted: the mode's config.
      directory: the workdir.
      host: runs what waits.
      stack: ends what the run starts.

    Raises:
      ConfigError: the workdir holds another run.
    """
    self.wanted = wanted
    self.directory = directory
    self.host = host
    self.stack = stack
    self.record = config_lib.record(wanted)
    self.claimed = False
    # Whether what the workdir holds is of this very run.
    self.known = ranks.same(lambda: resume.check_config(self.record, directory))
    self.first = distributed.is_first()
    self.console = rich.console.Console(quiet=not self.first)
    self.began = time.monotonic()
    # Kept in every checkpoint beside the loop's own bookkeeping.
    self.totals = {'wall_s': 0.0, 'tokens': 0.0}
    self.evals: dict[str, Any] = {}
    # Of the loop's metrics, once it has begun; of the first process.
    self.writer: metrics_lib.Writer | None = None

  def run(self) -> None:
    """The whole of it."""
    raise NotImplementedError

  # Building the parts.

  def build_world(self, *, expert: bool) -> None:
    """Makes the mesh, the checkpoints and the environment."""
    wanted = self.wanted
    parts.check_attention(wanted.model)
    self.mesh = meshes.make(wanted.mesh)
    # Whether the optimizer's state waits in the memory of the host.
    self.offload = 'optimizer' in wanted.mesh.offload
    self.checkpoints = Checkpoints(
        self.directory / 'checkpoints', keep=wanted.checkpoint.keep
    )
    self.stack.callback(self.checkpoints.close)
    self.environment = self.stack.enter_context(
        parts.Environment(
            self.host,
            wanted.env,
            task_file=wanted.env.task_file,
            expert=expert,
        )
    )
    self.train_tasks = self.environment.tasks('train')
    # Refused now rather than after an hour.
    self.environment.panel(wanted.eval)
    remote.read_keys(wanted.sampler)
    if self.first:
      remote.look(wanted.sampler)

  def build_policy(self, texts: Callable[[], Sequence[str]]) -> None:
    """Makes the network and how it talks.

    Args:
      texts: gives what the tokenizer of a random network is trained on.
    """
    wanted = self.wanted
    self.model = self._model(texts)
    # Here as well as where sampling starts: sft may do without.
    parts.check_context(
        self.model.config, 'rollout.max_context', wanted.rollout.max_context
    )
    if wanted.model.lora.rank:
      self.model = adapters.attach(
          self.model,
          wanted.model.lora,
          seed=seeds.derive_seed(wanted.seed, 'lora'),
          mesh=self.mesh,
      )
    # What the parameters that are trained belong to, for the checkpoints.
    self.adapter = adapters.describe(self.model, wanted.model)
    self.agent = parts.make_agent(
        self.environment.spec, wanted.agent, self.model.tokenizer
    )
    self.module = self.model.module(wanted.model)

  def _model(self, texts: Callable[[], Sequence[str]]) -> parts.Model:
    """The pretrained model, or a random one with a tokenizer of its own."""
    name = self.wanted.model.name
    if not self.wanted.model.from_scratch:
      self.console.print(f'Loading {name}')
      # What is trained is kept in float32; a base that is frozen need not be.
      frozen = self.wanted.model.lora.rank > 0
      dtype = self.wanted.model.dtype if frozen else 'float32'
      return checkpoints_lib.load(name, self.mesh, dtype=parts.DTYPES[dtype])[0]
    path = self.directory / 'tokenizer'
    shape = variants.get(name)
    # That of a run which was refused may be of other tasks.
    if not distributed.agree(self.known and path.exists()):
      self.console.print(f'Training a tokenizer of {shape.vocab_size} tokens')
      tokenizer = tokenizer_lib.train_bpe(texts(), shape.vocab_size)
      if self.first:
        tokenizer.save(path)
      distributed.wait('tokenizer')
    return parts.new_model(
        shape,
        tokenizer_lib.load(path),
        seed=seeds.derive_seed(self.wanted.seed, 'init'),
        path=str(path),
        mesh=self.mesh,
    )

  def expert_texts(self, horizon: int) -> list[str]:
    """What the policy will read and write, from the expert's episodes."""
    return warmstart.expert_texts(
        self.host,
        self.environment,
        self.wanted.agent,
        self.wanted.rollout,
        horizon=horizon,
        seed=self.wanted.seed,
        console=self.console,
    )

  def play_expert(self, count: int, horizon: int) -> list[Episode]:
    """The episodes that the expert solved on `count` training tasks."""
    played = warmstart.play_expert(
        self.host,
        self.environment,
        self.agent,
        self.wanted.rollout,
        count,
        horizon=horizon,
        seed=self.wanted.seed,
        max_context=self.wanted.rollout.max_context,
        console=self.console,
    )
    return warmstart.solved(played, self.console, horizon=horizon)

  def start_sampling(self, version: int) -> None:
    """Starts or finds who samples, with the model's parameters."""
    wanted = self.wanted
    if wanted.sampler.kind == 'embedded':
      self.console.print('The engine compiles while its first requests wait.')
    self.serving = serving.start_serving(
        self.stack,
        self.host,
        self.model,
        sampler=wanted.sampler,
        max_context=wanted.rollout.max_context,
        dtype=wanted.model.dtype,
        seed=seeds.derive_seed(wanted.seed, 'engine'),
        version=version,
        directory=self.directory,
        chat_template=wanted.agent.template,
    )
    self.eval_sampler = self.make_sampler(wanted.eval.temperature)
    self.claim()

  def claim(self) -> None:
    """Keeps the config: all was checked, and there will be something to keep.

    Until then a command that was refused leaves nothing which would refuse the
    corrected one.
    """
    if self.first and not self.claimed:
      resume.keep_config(self.record, self.directory)
    self.claimed = True

  def make_sampler(self, temperature: float):
    return serving.make_sampler(
        self.host, self.serving, self.wanted.sampler, temperature=temperature
    )

  def push(self, params: Any, version: int) -> None:
    """Hands the policy to the sampler."""
    ranks.same(lambda: self.host.run(self.serving.push(params, version)))

  # Learning from demonstrations.

  def warm_start(self, episodes: Sequence[Episode]) -> Any:
    """Parameters that imitate these episodes, as config.warmstart says."""
    warm = self.wanted.warmstart
    if self.first:
      episodes_lib.write(
          self.directory / 'episodes' / 'warmstart.jsonl', episodes
      )
    params, _ = self.imitate(
        self.model.params,
        warmstart.as_batch(episodes),
        epochs=warm.epochs,
        minibatch_size=warm.minibatch_size,
        optim=self.wanted.optim,
        schedule=warmstart.Schedule(warm.lr, warm.warmup_steps, warm.schedule),
        seed=seeds.derive_seed(self.wanted.seed, 'warmstart'),
        directory=self.directory,
    )
    return params

  def imitate(
      self, params: Any, batch: TokenBatch, **how: Any
  ) -> tuple[Any, dict[str, Any]]:
    """`warmstart.imitate` with what is the same in all of a run's."""
    params, metrics = warmstart.imitate(
        params,
        batch,
        **how,
        module=self.module,
        base=self.model.base,
        mesh=self.mesh,
        console=self.console,
        check=functools.partial(ranks.check, self.host),
        write=self.first,
        offload=self.offload,
    )
    self.totals['tokens'] += metrics['train/tokens']
    return params, metrics

  # Evaluation, saving, the end.

  def evaluate(self, name: str, step: int, version: int) -> None:
    """Success on the fixed panel, kept under `name`.

    It joins the metrics of the step before it, as `eval/...`; what came before
    the first step joins those of that (see `early_evals`).
    """
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
    if self.first:
      evaluate.write_episodes(
          self.directory,
          name if name == 'untrained' else f'{step:06d}',
          result,
          tokens=self.wanted.rollout.save_tokens,
      )
    self.evals[name] = result.summary
    if self.writer is not None:
      self.writer.amend(evaluation.as_metrics(result.summary, 'eval'))
    self.console.print(evaluate.describe(name, result.summary), highlight=False)

  def early_evals(self, step: int) -> dict[str, float]:
    """For the line of step 0: `eval_before/...`, `eval_untrained/...`."""
    names = [n for n in ('untrained', 'before') if n in self.evals and not step]
    return {
        name: value
        for early in names
        for name, value in evaluation.as_metrics(
            self.evals[early], f'eval_{early}'
        ).items()
    }

  def save(
      self, state: TrainState, books: dict[str, Any], *, ref_params: Any = None
  ) -> None:
    """Starts a checkpoint of all that the run needs to go on.

    Args:
      state: after step `books['step']`.
      books: the loop's own, JSON values; has `policy_version`.
      ref_params: of the reference policy, if there is one.
    """
    self.claim()  # a run that does not sample has not yet
    now = time.monotonic()
    self.totals['wall_s'] += now - self.began
    self.began = now
    checkpoint.save(
        self.checkpoints,
        state,
        ref_params,
        {
            'books': books,
            'evals': self.evals,
            'totals': self.totals,
            'model': dataclasses.asdict(self.model.config),
            'adapter': self.adapter,
        },
    )

  def restore(
      self, like: TrainState, *, reference: bool = False
  ) -> tuple[TrainState, Any, dict[str, Any]]:
    """Brings the newest checkpoint back, and sets later records aside.

    Returns:
      The state, the reference's parameters (None without one), the books.
    """
    host, place = self.checkpoints.host(), f'The checkpoint in {self.directory}'
    checkpoint.check_model(host['model'], self.model.config, place)
    adapters.check(host.get('adapter'), self.adapter, place)
    state, ref_params, host = checkpoint.restore(
        self.checkpoints, like, reference=reference
    )
    self.evals, self.totals = host['evals'], host['totals']
    step = host['books']['step']
    lines = resume.discard_from(self.directory, step) if self.first else 0
    self.console.print(
        f'Continuing after step {step}'
        + (f'; {lines} later lines of metrics set aside' if lines else '')
    )
    return state, ref_params, host['books']

  def summarise(self, mode: str, steps: int, **values: Any) -> None:
    """Writes `summary.json` and says where it is."""
    if not self.first:
      return
    summary = {
        'mode': mode,
        'steps': steps,
        'wall_s': self.totals['wall_s'] + time.monotonic() - self.began,
        'tokens': int(self.totals['tokens']),
        **values,
        'eval': self.evals,
    }
    path = self.directory / 'summary.json'
    path.write_text(json.dumps(summary, indent=2) + '\n')
    self.console.print(
        f'Done in {metrics_lib.duration(summary["wall_s"])}; see {path}',
        highlight=False,
    )
