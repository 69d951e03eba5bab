"""The counts and evaluations of a run: its metrics, and its summary."""

import contextlib
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import rich.console

from agentrl import metrics as metrics_lib, shipped
from agentrl.data import episodes
from agentrl.errors import CheckpointError
from agentrl.evaluation import evaluate
from agentrl.evaluation.chance import level
from agentrl.runtime import summary as summary_lib
from agentrl.schedules import SAMPLED_TOKENS
from agentrl.trackers import Tracker
from agentrl.training import system
from agentrl.training.rl import RlStep

# Panels, as summary.json and metrics call their evaluations.
WHOLE, SMALL = 'eval', 'eval_small'


class RunRecord:
  """Lines of `metrics.jsonl`, totals and evaluations of a run.

  Every process of several counts; process 0 writes. As a context manager it
  leaves a summary also of a run that ends early.

  Attributes:
    began: when this process began to count seconds, by `time.monotonic`.
  """

  def __init__(
      self,
      directory: pathlib.Path,
      console: rich.console.Console,
      *,
      writes: bool,
      trackers: Mapping[str, Tracker] | None = None,
  ):
    """Starts the clock.

    Args:
      directory: the workdir.
      console: shows progress.
      writes: True in process 0.
      trackers: where metrics go as well, by name; None: nowhere.
    """
    self._directory, self._console = directory, console
    self._writes = writes
    self._trackers = dict(trackers or {})
    self.began = time.monotonic()
    self._wall_s = 0.0
    self._mode: str | None = None  # of a run that has begun and has not ended
    self._steps = 0  # recorded, those of earlier processes included
    self._tokens = 0.0
    self._sampled_tokens = 0.0  # in rl steps
    self._compile_wait_s = 0.0  # in steps
    self._programs = 0.0  # of this process
    self._evals: dict[str, dict[str, Any]] = {WHOLE: {}, SMALL: {}}
    self._chance: dict[str, dict[str, dict[str, Any] | None]] = {
        WHOLE: {},
        SMALL: {},
    }
    self._writer: metrics_lib.Writer | None = None

  def begin(self, mode: str) -> None:
    """Notes that the run has begun: its end will be summarised."""
    if self._mode is None and self._writes:
      summary_lib.withdraw(self._directory)
    self._mode = mode

  def __enter__(self) -> Self:
    return self

  def __exit__(
      self, kind: Any, error: BaseException | None, trace: Any
  ) -> None:
    if error is not None and self._mode is not None and self._writes:
      summary_lib.leave(
          self._directory, error, self._summary(self._mode, self._steps)
      )

  @property
  def trackers(self) -> Sequence[Tracker]:
    """The trackers, which also get the metrics of a phase."""
    return tuple(self._trackers.values())

  def open(
      self,
      stack: contextlib.ExitStack,
      total: int,
      start: int,
      *,
      shown: Sequence[str],
      show_every: int = 1,
  ) -> None:
    """Opens `metrics.jsonl`, to be written from line `start` on.

    Lines and episodes beyond it, of a run that was killed before its first
    checkpoint was complete, are set aside.

    Args:
      stack: closes the file.
      total: lines of the whole run.
      start: lines that stay.
      shown: metrics of the progress line.
      show_every: lines between two that are shown.
    """
    if not self._writes:
      return
    self.discard_from(start)
    self._writer = metrics_lib.Writer(
        self._directory,
        total=total,
        start=start,
        shown=shown,
        console=self._console,
        show_every=show_every,
        trackers=self.trackers,
    )
    stack.callback(self._writer.close)

  def write(self, step: int, values: Mapping[str, float]) -> None:
    """Writes a line; that of step 0 has the evaluations before it."""
    if self._writer is None:
      return
    total = lambda name: sum(
        values.get(f'{side}/{name}', 0.0) for side in ('train', 'sampler')
    )
    self._compile_wait_s += total('compile_wait_s')
    self._programs = total('programs')
    early = [
        (panel, name)
        for panel, evals in self._evals.items()
        for name in evals
        if not step and name.partition('/')[0] in ('untrained', 'before')
    ]
    for panel, name in early:
      summary = self._evals[panel][name]
      values = {**values, **evaluate.as_metrics(summary, f'{panel}_{name}')}
    self._writer.write(step, {**values, **system.memory()})
    self._steps = step + 1

  def write_step(
      self,
      rl_step: RlStep,
      metrics: Mapping[str, float],
      *,
      tokens: bool,
      shaped: bool,
  ) -> None:
    """Writes an rl step: its line, its episodes, what was trained on.

    Args:
      rl_step: its results.
      metrics: its own, and those of the sampler.
      tokens: True to write the arrays of tokens.
      shaped: True if the algorithm shapes rewards.
    """
    played = [episode for group in rl_step.groups for episode in group.episodes]
    self.add_tokens(sum(len(episode.tokens) for episode in played))
    self._sampled_tokens += metrics.get(SAMPLED_TOKENS, 0.0)
    if not self._writes:
      return
    step, batch = rl_step.step, rl_step.batch
    if rl_step.suspects:
      path = self._directory / 'diverged' / f'{step:06d}.jsonl'
      episodes.write(path, [played[row] for row in rl_step.suspects])
      self._console.print(
          f'Step {step + 1} skipped an update: its gradient was not finite. The'
          f' episodes in question are in {path}.',
          highlight=False,
      )
    path = episodes.step_path(self._directory, 'train', step)
    episodes.write(path, played, tokens=tokens)
    if tokens:
      last = rl_step.last
      assert batch.anchor_ids is not None
      # Tokens that were not sampled have none, whatever stands there.
      sampled = lambda x: (
          None if x is None else np.where(batch.completion_mask, x, np.nan)
      )
      episodes.write_learned(
          path,
          advantages=batch.advantages,
          old_logprobs=sampled(batch.old_logprobs),
          ref_logprobs=sampled(batch.ref_logprobs),
          teacher_logprobs=sampled(batch.teacher_logprobs),
          shaped_rewards=batch.rewards if shaped else None,
          returns=batch.returns,
          values=batch.values,
          # Numbered from 1: 0 is a token of no turn.
          turn_groups=batch.anchor_ids + 1,
          last_logprobs=last and last.logprobs,
          entropy=last and last.entropy,
          placements=last and last.placements,
      )
    self.write(step, metrics)

  def add_evaluation(
      self, name: str, summary: dict[str, Any], panel: str = WHOLE
  ) -> None:
    """Keeps a summary; it joins the line of the step before it, as `eval/...`.

    One from before the first step joins that of step 0, see `write`. That of a
    member of a mixture, `NAME/MEMBER`, joins as `eval/MEMBER/...`.

    Args:
      name: of the evaluation.
      summary: see `held_out.summary`.
      panel: `WHOLE` or `SMALL`; begins the names of metrics.
    """
    self._evals[panel][name] = summary
    if self._writer is not None:
      prefix = '/'.join([panel, *name.split('/')[1:]])
      self._writer.amend(evaluate.as_metrics(summary, prefix))

  def evaluations(self, panel: str = WHOLE) -> Mapping[str, dict[str, Any]]:
    """Summaries of a panel by the names of their evaluations, in order."""
    return self._evals[panel]

  def add_chance(
      self,
      name: str,
      summary: dict[str, Any] | None,
      small: dict[str, Any] | None = None,
  ) -> None:
    """Keeps the success of random actions or of the expert on the panel.

    Args:
      name: 'random' or 'expert', in a mixture with `/MEMBER`.
      summary: see `chance.level.summarise`; None: the environment has none.
      small: of the part that is played more often; None: there is none.
    """
    self._chance[WHOLE][name] = summary
    if small is not None:
      self._chance[SMALL][name] = small

  @property
  def chance(self) -> Mapping[str, dict[str, Any] | None]:
    """Levels on the whole panel by name; None of those that there are not."""
    return self._chance[WHOLE]

  def rename(self, old: str, new: str) -> None:
    """Gives an evaluation another name, on all panels and for all members."""
    for panel, evals in self._evals.items():
      self._evals[panel] = {
          '/'.join([new, *rest])
          if first == old
          else '/'.join([first, *rest]): x
          for (first, *rest), x in (
              (name.split('/'), x) for name, x in evals.items()
          )
      }

  @property
  def sampled_tokens(self) -> float:
    """Tokens that were sampled in the rl steps so far."""
    return self._sampled_tokens

  def add_tokens(self, count: float) -> None:
    """Adds tokens that were trained on."""
    self._tokens += count

  def discard_from(self, step: int) -> int:
    """Sets the records of `step` and later aside: it is played again.

    Returns:
      The number of lines of metrics.
    """
    self._steps = step
    if not self._writes:
      return 0
    episodes.discard_from(self._directory / 'episodes' / 'train', step)
    return metrics_lib.discard_from(self._directory / 'metrics.jsonl', step)

  def drop_before(self, step: int) -> None:
    """Removes the episode files of earlier rl steps than `step`."""
    if self._writes:
      episodes.drop_before(self._directory / 'episodes' / 'train', step)

  def lines(self) -> Iterator[dict[str, float]]:
    """The lines of metrics so far, those of earlier processes included."""
    path = self._directory / 'metrics.jsonl'
    if self._writes and path.exists():
      yield from metrics_lib.read(path)

  def state(self) -> dict[str, Any]:
    """The part of a checkpoint that `restore` takes; JSON values."""
    return {
        'evals': self._evals[WHOLE],
        'small_evals': self._evals[SMALL],
        'totals': {
            'wall_s': self._elapsed(),
            'tokens': self._tokens,
            'sampled_tokens': self._sampled_tokens,
            'compile_wait_s': self._compile_wait_s,
        },
    }

  def restore(self, state: Mapping[str, Any]) -> None:
    """Goes on from a checkpoint."""
    self._evals[WHOLE] = state['evals']
    # Runs of earlier versions have none.
    self._evals[SMALL] = state.get('small_evals', {})
    self._wall_s, self._tokens = (
        state['totals'][name] for name in ('wall_s', 'tokens')
    )
    self._sampled_tokens = state['totals'].get('sampled_tokens', 0.0)
    self._compile_wait_s = state['totals'].get('compile_wait_s', 0.0)

  def summarised(self, step: int) -> dict[str, dict[str, Any]]:
    """Evaluations in the summary of a run that ended, by panel and name.

    The last evaluation follows the last checkpoint, so no checkpoint has it.
    A summary of later steps than `step`, which will be done again, is set
    aside.

    Args:
      step: that the run continues after; evaluations of later checkpoints are
        left out.

    Raises:
      CheckpointError: the summary cannot be read.
    """
    try:
      summary = summary_lib.read(self._directory)
    except CheckpointError as error:
      raise CheckpointError(
          f'{error} Remove it: the run goes on without its last evaluation.'
      ) from error
    if summary.get('steps', 0) < step:
      return {}  # it went on: its next checkpoint had them
    if summary.get('steps', 0) > step and self._writes:
      path = self._directory / summary_lib.FILE
      path.replace(path.with_name(f'{path.name}.discarded'))
    return {
        panel: {
            name: entry
            for name, entry in summary.get(panel, {}).items()
            if (entry.get('checkpoint') or 0) <= step
        }
        for panel in (WHOLE, SMALL)
    }

  def recall(self, evals: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds what `summarised` found, unless the checkpoint had it."""
    for panel, entries in evals.items():
      self._evals[panel] = self._evals[panel] | {
          name: x
          for name, x in entries.items()
          if name not in self._evals[panel]
      }

  def summarise(self, mode: str, steps: int, **values: Any) -> None:
    """Writes `summary.json` and prints where it is."""
    if not self._writes:
      return
    summary = {**self._summary(mode, steps), **values}
    path = summary_lib.write(self._directory, summary)
    self._mode = None
    place, start = self._directory, f'{shipped.command()} --config=configs'
    for line in (
        *_chance_lines(self._chance[WHOLE]),
        f'Done in {metrics_lib.duration(summary["wall_s"])}; see {path}',
        f'To look at it:  {start}/view.py --workdir={place}',
        (
            f'To evaluate it: {start}/evaluate.py:model={place}'
            f' --workdir={place}-eval'
        ),
    ):
      self._console.print(line, highlight=False, markup=False, soft_wrap=True)

  def _summary(self, mode: str, steps: int) -> dict[str, Any]:
    """The values of a summary: counts, evaluations, random actions."""
    return {
        'mode': mode,
        'steps': steps,
        'wall_s': self._elapsed(),
        'episodes': self._episodes(),
        'tokens': int(self._tokens),
        'sampled_tokens': int(self._sampled_tokens),
        'compile_wait_s': self._compile_wait_s,
        'programs': int(self._programs),
        **{name: x for name, x in self._evals.items() if x or name == WHOLE},
        **{
            name.replace(WHOLE, 'chance', 1): x
            for name, x in self._chance.items()
            if x
        },
        'links': {name: t.link for name, t in self._trackers.items()},
    }

  def _episodes(self) -> int:
    """Episodes of the recorded steps, those of earlier processes included."""
    count = 0.0
    # Where the disk was full, the last line is torn.
    with contextlib.suppress(OSError, ValueError):
      for line in self.lines():
        count += line.get('rollout/episodes', 0.0)
    return int(count)

  def _elapsed(self) -> float:
    """Seconds of the whole run, earlier processes included."""
    return self._wall_s + time.monotonic() - self.began


def _chance_lines(
    summaries: Mapping[str, dict[str, Any] | None],
) -> Iterator[str]:
  """Lines with random actions and the expert, one for each environment."""
  for member in dict.fromkeys(x.partition('/')[2] for x in summaries):
    if words := level.beside(summaries, member):
      yield f'On the same tasks{f" of {member}" if member else ""}: {words}'
