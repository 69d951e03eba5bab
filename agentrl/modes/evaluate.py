"""mode='evaluate': success of a policy on a fixed list of held-out tasks."""

import contextlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Mapping
from typing import Any

import rich.console
import rich.table
from ml_collections import ConfigDict

from agentrl.config import sections
from agentrl.data import episodes as episodes_lib
from agentrl.evaluation.evaluate import Evaluation, seeded, summarise
from agentrl.modes import checkpoints, parts, resume
from agentrl.modes.parts import Environment
from agentrl.rollout.collect import Play
from agentrl.runtime.event_loop import EventLoop, Interrupted, make_workdir
from agentrl.serving import start as serving
from agentrl.training import compile_cache, ranks

read = resume.read


def run(config: ConfigDict, workdir: str | None) -> None:
  """Evaluates `config.model`; leaves episodes and a summary in `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  sections = read(config)
  compile_cache.use(sections.compile_cache)
  ranks.join(os.environ, config.mode, ready=False)
  wanted, rollout = sections.eval, sections.rollout
  model, sampler = sections.model, sections.sampler
  directory = make_workdir(workdir)
  console = rich.console.Console()
  began = time.monotonic()
  with contextlib.ExitStack() as stack:
    host = stack.enter_context(EventLoop())
    environment = stack.enter_context(Environment(host, sections.env))
    environment.panel(wanted)  # refused now, not after the model is loaded
    policy, version = checkpoints.load(model.name)
    number = int(version) if version.isdecimal() else 0
    try:
      served = serving.start_serving(
          stack,
          host,
          policy,
          sampler=sampler,
          max_context=rollout.max_context,
          dtype=model.dtype,
          seed=wanted.seed,
          version=number,
          directory=directory,
          chat_template=sections.agent.template,
      )
      play = parts.make_play(
          environment,
          parts.make_agent(environment.spec, sections.agent, policy.tokenizer),
          serving.make_sampler(
              host, served, sampler, temperature=wanted.temperature
          ),
          rollout,
          name='eval',
          split=wanted.split,
          horizon=wanted.horizon,
          policy_version=number,
      )
      result = run_panel(host, environment, play, wanted, rollout, console)
    except Interrupted:
      print('Stopped; nothing was written.')
      sys.exit(130)
  write_episodes(directory, 'eval', result, tokens=rollout.save_tokens)
  summary = {
      'mode': 'evaluate',
      'steps': 0,
      'wall_s': time.monotonic() - began,
      'tokens': sum(
          len(e.tokens) for group in result.groups for e in group.episodes
      ),
      'model': model.name,
      'weight_version': version,
      'eval': {wanted.split: result.summary},
  }
  path = directory / 'summary.json'
  path.write_text(json.dumps(summary, indent=2) + '\n')
  show(console, sections.env.name, result.summary)
  console.print(f'See {path}', highlight=False, soft_wrap=True)


def run_panel(
    host: EventLoop,
    environment: Environment,
    play: Play,
    wanted: sections.Eval,
    rollout: sections.Limits,
    console: rich.console.Console,
    *,
    name: str = 'evaluation',
) -> Evaluation:
  """Plays the fixed panel that `wanted` describes.

  Raises:
    ConfigError: there are fewer tasks.
    DataError: the item file is none for this environment.
    Interrupted: the user asked to stop.
  """
  groups = parts.collect_groups(
      host,
      console,
      name,
      list(enumerate(environment.panel(wanted))),
      wanted.samples,
      seeded(play, wanted.seed),
      rollout,
      seed=wanted.seed,
  )
  return Evaluation(
      summarise(groups, seed=wanted.seed, subtask=environment.subtasks()),
      groups,
  )


def write_episodes(
    directory: pathlib.Path, stem: str, result: Evaluation, *, tokens: bool
) -> None:
  """Writes the episodes of an evaluation to `episodes/eval/STEM.jsonl`."""
  episodes_lib.write(
      directory / 'episodes' / 'eval' / f'{stem}.jsonl',
      [e for group in result.groups for e in group.episodes],
      tokens=tokens,
  )


def describe(name: str, summary: dict) -> str:
  """One line for people: success with its interval."""
  if summary['mean'] is None:
    return f'{name}: no valid episode'
  return (
      f'{name}: success {summary["mean"]:.3f}, 95% interval'
      f' [{summary["low"]:.3f}, {summary["high"]:.3f}],'
      f' {summary["n"]} held-out tasks'
  )


def show(
    console: rich.console.Console, env_name: str, summary: Mapping[str, Any]
) -> None:
  """Prints success on each subtask and on all: a table, or lines in a pipe."""
  rows = dict(summary.get('subtasks', {}), all=summary)
  if console.is_terminal:
    console.print(_table(env_name, rows))
    return
  for name, row in rows.items():
    # What reads a pipe wants a line a fact, of letters that any encoding has.
    text = describe(f'{env_name}, {name}', row)
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _table(
    env_name: str, rows: Mapping[str, Mapping[str, Any]]
) -> rich.table.Table:
  table = rich.table.Table(title=f'Success on {env_name}')
  for column in ('subtask', 'success', '95% interval', 'episodes'):
    table.add_column(column, justify='left' if column == 'subtask' else 'right')
  for name, row in rows.items():
    if row['mean'] is not None:
      table.add_row(
          name,
          f'{row["mean"]:.3f}',
          f'{row["low"]:.3f} to {row["high"]:.3f}',
          str(row['n']),
      )
  return table
