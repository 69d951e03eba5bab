"""The steps of a run that learns: demonstrations, pushes, evaluations, saves."""

import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import rich.console

from agentrl import config as config_lib, metrics
from agentrl.algos import sft
from agentrl.batch import TokenBatch
from agentrl.config import resume
from agentrl.config.modes import Train
from agentrl.data import episodes as episodes_lib
from agentrl.data.quotas import Quotas
from agentrl.evaluation import evaluate as evaluation, report
from agentrl.evaluation.journal import Journal, PlayedBy
from agentrl.evaluation.play import Player
from agentrl.modes import chance, held_out
from agentrl.modes.build import Arena, Run
from agentrl.parallel import distributed, ranks
from agentrl.rollout import collector as collector_lib
from agentrl.runtime import workdir as workdir_lib
from agentrl.serving import start as serving_lib
from agentrl.serving.start import Serving
from agentrl.training import supervised
from agentrl.training.optim import Rate
from agentrl.training.run_record import SMALL, WHOLE
from agentrl.types import Episode

# Phases of a run.
UNTRAINED = 'evaluation of the untrained policy'
IMITATION = 'imitation of the expert'
BEFORE = 'evaluation before reinforcement learning'
LEARNING = 'reinforcement learning'
AFTER = 'evaluation after it'


def play_expert(
    run: Run, arena: Arena, count: int, horizon: int, stumbles: float = 0.0
) -> list[Episode]:
  """The episodes that the expert solved on `count` training tasks."""
  config = arena.config
  played = run.collectors[arena.name].play_expert(
      count,
      horizon=horizon,
      seed=config.seed,
      max_context=config.rollout.max_context,
      stumbles=stumbles,
  )
  return collector_lib.solved(
      played, run.session.console, horizon=horizon, member=arena.name
  )


def start_sampling(run: Run, params: Any, version: int) -> Serving:
  """Starts or finds the servers that sample, and hands them the parameters."""
  session, config = run.session, run.session.config
  if config.sampler.kind == 'embedded':
    session.console.print('The engine compiles while its first requests wait.')
  serving = serving_lib.start_serving(
      session.stack,
      session.loop,
      serving_lib.ServedPolicy(
          model=dataclasses.replace(run.model, params=params),
          version=version,
          dtype=config.sampler.dtype or config.model.dtype,
          max_context=config.rollout.max_context,
          seed=session.seed('engine'),
          chat_template=config.agent.template,
          chat_date=config.agent.date,
          episodes=config.rollout.concurrency,
      ),
      config.sampler,
      session.directory,
  )
  run.claim()
  return serving


def push(run: Run, serving: Serving, params: Any, version: int) -> None:
  """Hands the policy to the sampler."""
  loop = run.session.loop
  ranks.same(lambda: loop.run(serving.push(params, version)))


class Phases:
  """The phases of a run, printed as they begin with the time since its start."""

  def __init__(
      self, console: rich.console.Console, names: Sequence[str], began: float
  ):
    """Keeps the parts.

    Args:
      console: to print on.
      names: of the phases that are planned, in their order.
      began: the start of the run by `time.monotonic`. A tokenizer's expert may
        play for half a minute before the first phase.
    """
    self._console, self._names, self._began = console, list(names), began

  def begin(self, name: str) -> None:
    """Prints the place of a phase among all; one that is not planned is silent."""
    if name in self._names:
      place = f'{self._names.index(name) + 1}/{len(self._names)}'
      passed = metrics.duration(time.monotonic() - self._began)
      self._console.print(
          f'Phase {place}, after {passed}: {name}', highlight=False
      )


def warm_up(
    run: Run,
    serving: Serving,
    params: Any,
    phases: Phases,
) -> tuple[Any, int]:
  """Imitates the expert if config.warmstart says so; evaluates before that.

  Args:
    run: of the mode; the experts of its environments have as many episodes as
      their weights say.
    serving: samples.
    params: of the policy.
    phases: of the run.

  Returns:
    The parameters that RL begins with, and their version.
  """
  warm, version = run.session.config.warmstart, 0
  if warm.episodes:
    if run.session.config.eval.untrained:
      phases.begin(UNTRAINED)
      evaluate_all(run, serving, 'untrained', 0, version, checkpoint=None)
    phases.begin(IMITATION)
    weights = [arena.weight for arena in run.arenas]
    counts = Quotas(weights, warm.episodes).at(0)
    episodes = [
        episode
        for arena, count in zip(run.arenas, counts, strict=True)
        if count
        for episode in play_expert(
            run, arena, count, warm.horizon, warm.stumbles
        )
    ]
    params = warm_start(run, params, episodes)
    version += 1
    push(run, serving, params, version)
  return params, version


def warm_start(run: Run, params: Any, episodes: Sequence[Episode]) -> Any:
  """Parameters that imitate these episodes, as config.warmstart says."""
  session, config = run.session, run.session.config
  warm = config.warmstart
  if session.first:
    path = session.directory / 'episodes' / 'warmstart.jsonl'
    episodes_lib.write(path, episodes)
  params, _ = imitate(
      run,
      params,
      supervised.as_batch(episodes),
      passes=supervised.Passes(
          warm.epochs,
          warm.minibatch_size,
          config.optim.max_tokens,
          session.seed('warmstart'),
          learns_prompts=warm.prompt_weight > 0,
      ),
      rate=lambda total: Rate(warm.lr, warm.warmup_steps, warm.schedule, total),
      loss=functools.partial(sft.loss, prompt_weight=warm.prompt_weight),
      name='warmstart',
      directory=session.directory,
  )
  return params


def imitate(
    run: Run,
    params: Any,
    batch: TokenBatch,
    *,
    passes: supervised.Passes,
    rate: Callable[[int], Rate],
    loss: Callable,
    **how: Any,
) -> tuple[Any, dict[str, Any]]:
  """`supervised.imitate` from these parameters, which are kept."""
  learner = supervised.make_learner(
      params,
      len(batch.valid),
      network=run.network,
      loss=loss,
      optim=run.session.config.optim,
      rate=rate,
      passes=passes,
  )
  params, metrics = supervised.imitate(
      learner,
      batch,
      console=run.session.console,
      check=lambda: ranks.check(run.session.loop),
      write=run.session.first,
      trackers=run.record.trackers,
      **how,
  )
  run.record.add_tokens(metrics['train/tokens'])
  return params, metrics


def evaluate_all(
    run: Run,
    serving: Serving,
    name: str,
    step: int,
    version: int,
    *,
    checkpoint: int | None,
    panel: str = WHOLE,
    evaluations: Collection[str] = (),
) -> None:
  """`evaluate` in each environment without an entry in `evaluations`."""
  for arena in run.arenas:
    if entry_of(arena, name) not in evaluations:
      evaluate(
          run,
          arena,
          serving,
          name,
          step,
          version,
          checkpoint=checkpoint,
          panel=panel,
      )


def evaluate_last(
    run: Run,
    serving: Serving,
    step: int,
    version: int,
    *,
    checkpoint: int,
) -> None:
  """Evaluates after the last step, unless a process before this one did."""
  for arena in run.arenas:
    if not _known(run, arena, 'after', checkpoint):
      evaluate(
          run, arena, serving, 'after', step, version, checkpoint=checkpoint
      )
      continue
    entry = entry_of(arena, 'after')
    line = report.describe(entry, run.record.evaluations()[entry])
    run.session.console.print(f'{line}, as evaluated before', highlight=False)
    chance.beside(run, arena, 0.0)


def _known(run: Run, arena: Arena, name: str, checkpoint: int) -> bool:
  """True if this checkpoint was evaluated on the panel as it is played now."""
  summary = run.record.evaluations().get(entry_of(arena, name))
  if summary is None or arena.panel is None:
    return False
  now = (
      checkpoint,
      arena.panel.hash,
      arena.panel.horizon,
      arena.config.eval.temperature,
  )
  keys = ('checkpoint', *evaluation.SETTINGS)
  return tuple(map(summary.get, keys)) == now


def evaluate(
    run: Run,
    arena: Arena,
    serving: Serving,
    name: str,
    step: int,
    version: int,
    *,
    checkpoint: int | None,
    panel: str = WHOLE,
) -> None:
  """Success on a fixed panel, kept under `name`; see `RunRecord`.

  That of a member of a mixture is kept under `NAME/MEMBER`. The whole panel's
  episodes give the small one's figures as well. Where a killed process has
  begun this evaluation, with the same weights and settings, its episodes are
  taken up; others are dropped.

  Args:
    run: of the mode.
    arena: where.
    serving: samples.
    name: of the evaluation.
    step: names the file of episodes.
    version: of the policy.
    checkpoint: the number that these weights have or will have; None: none.
    panel: `WHOLE` or `SMALL`.
  """
  session, config = run.session, arena.config
  panels = {WHOLE: arena.panel, SMALL: arena.small_panel}
  played = panels[panel]
  if played is None:
    return
  stem = name if name == 'untrained' else f'{step:06d}'
  stem = '-'.join(filter(None, [stem, arena.name]))
  entry = entry_of(arena, name)
  open_play = functools.partial(
      run.collectors[arena.name].play,
      serving.make_sampler(temperature=config.eval.temperature),
      name=f'{panel}-{name}',
      split=played.split,
      horizon=played.horizon,
      policy_version=version,
  )
  journal = Journal(
      session.directory / 'episodes' / panel / f'{stem}.jsonl',
      tokens=config.rollout.save_tokens,
      views=config.rollout.save_views,
      rank=distributed.index(),
      played_by=PlayedBy(
          session.directory / 'played_by' / panel / f'{stem}.json',
          lambda: {
              'policy_version': version,
              'weights': serving.push.fingerprint(),
              'adapter': run.adapter,
              'panel': played.hash,
              'split': played.split,
              'horizon': played.horizon,
              'temperature': config.eval.temperature,
              'config': resume.playing(config_lib.record(session.config)),
          },
      ),
  )
  player = Player(
      session.loop, session.console, config.rollout, arena.name, ranks
  )
  began = time.monotonic()
  groups = player.play(played, open_play, journal, title=f'evaluation {name}')
  for kind, part in panels.items():
    if part is None or kind not in (panel, SMALL):
      continue
    summary = held_out.summary(
        part,
        groups,
        temperature=config.eval.temperature,
        checkpoint=checkpoint,
        # Success that a schedule of horizons follows.
        within=config.horizon.held_out if isinstance(config, Train) else (),
        trained_on=arena.tasks if arena.weight else (),
    )
    run.record.add_evaluation(entry, summary, kind)
    if kind == panel:
      title = entry if kind == WHOLE else f'{entry}, small panel'
      session.console.print(report.describe(title, summary), highlight=False)
  if panel == WHOLE:
    chance.beside(run, arena, time.monotonic() - began)


def entry_of(arena: Arena, name: str) -> str:
  """The name under which an evaluation is kept."""
  return f'{name}/{arena.name}' if arena.name else name


def best(run: Run, *coming: int) -> str | None:
  """The best evaluation of a checkpoint that is kept; None: there is none.

  Args:
    run: of the mode.
    *coming: numbers of checkpoints that are about to be saved.
  """
  numbers = {*run.checkpoints.numbers, *coming}
  return evaluation.best(run.record.evaluations(), numbers)


def keep_best(run: Run, *coming: int) -> None:
  """Keeps the checkpoint of the best evaluation, if the config says so."""
  if run.session.config.checkpoint.keep_best:
    if (name := best(run, *coming)) is not None:
      number = run.record.evaluations()[name]['checkpoint']
      run.checkpoints.keep_best(number)


def finish(run: Run, mode: str, steps: int, **values: Any) -> None:
  """Writes the summary of a run that keeps its best checkpoint if told to."""
  if run.session.config.checkpoint.keep_best:
    keep_best(run)
    if (name := best(run)) is not None:
      summary = run.record.evaluations()[name]
      values['best'] = {
          'evaluation': name,
          'checkpoint': summary['checkpoint'],
          'success': summary['mean'],
      }
      path = run.session.directory / 'checkpoints' / workdir_lib.BEST
      run.session.console.print(
          f'{report.describe(f"best ({name})", summary)}; checkpoint'
          f' {summary["checkpoint"]}, {path}',
          highlight=False,
          soft_wrap=True,
      )
  run.record.summarise(mode, steps, **values)
