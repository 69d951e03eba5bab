"""mode='evaluate': success of a policy on a fixed list of held-out tasks."""

import contextlib
import json
import pathlib
import sys
import time

import rich.console
import rich.table
from ml_collections import ConfigDict

from agentrl import metrics as metrics_lib
from agentrl.data import episodes as episodes_lib
from agentrl.evaluation.evaluate import Evaluation, evaluate
from agentrl.modes import checkpoints, parts, settings
from agentrl.modes.host import Host, Interrupted, make_workdir
from agentrl.modes.parts import Environment
from agentrl.rollout.collect import Play


def read(config: ConfigDict) -> settings.Evaluation:
  """Reads and checks a config of mode 'evaluate'."""
  return settings.read_config(config, settings.Evaluation)


def run(config: ConfigDict, workdir: str | None) -> None:
  """Evaluates `config.model`; leaves episodes and a summary in `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  sections = read(config)
  wanted, rollout = sections.eval, sections.rollout
  model, sampler = sections.model, sections.sampler
  directory = make_workdir(workdir)
  console = rich.console.Console()
  began = time.monotonic()
  with contextlib.ExitStack() as stack:
    host = stack.enter_context(Host())
    environment = stack.enter_context(Environment(host, sections.env))
    environment.panel(wanted)  # refused now, not after the model is loaded
    policy, version = checkpoints.load(model.name)
    urls = sampler.urls
    if sampler.kind == 'embedded':
      _, url = parts.start_engine(
          stack,
          policy,
          sampler=sampler,
          max_context=rollout.max_context,
          dtype=model.dtype,
          seed=wanted.seed,
          version=version,
      )
      urls = [url]
    play = parts.make_play(
        environment,
        parts.make_agent(environment.spec, sections.agent, policy.tokenizer),
        parts.make_sampler(host, urls, sampler, temperature=wanted.temperature),
        rollout,
        name='eval',
        split=wanted.split,
        horizon=wanted.horizon,
        policy_version=int(version) if version.isdecimal() else 0,
    )
    try:
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
  console.print(_table(sections.env.name, result))
  console.print(f'See {path}', highlight=False)


def run_panel(
    host: Host,
    environment: Environment,
    play: Play,
    wanted: settings.Eval,
    rollout: settings.Limits,
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
  tasks = environment.panel(wanted)
  with metrics_lib.progress(console) as bar:
    task = bar.add_task(name, total=len(tasks) * wanted.samples)
    return host.run(
        evaluate(
            play,
            tasks,
            seed=wanted.seed,
            concurrency=rollout.concurrency,
            samples=wanted.samples,
            attempts=rollout.attempts,
            max_failed_share=rollout.max_failed_share,
            subtask=environment.subtasks(),
            on_episode=lambda _: bar.advance(task),
        )
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


def _table(env_name: str, result: Evaluation) -> rich.table.Table:
  table = rich.table.Table(title=f'Success on {env_name}')
  for column in ('subtask', 'success', '95% interval', 'episodes'):
    table.add_column(column, justify='left' if column == 'subtask' else 'right')
  rows = dict(result.summary.get('subtasks', {}), all=result.summary)
  for name, row in rows.items():
    if row['mean'] is not None:
      table.add_row(
          name,
          f'{row["mean"]:.3f}',
          f'{row["low"]:.3f} to {row["high"]:.3f}',
          str(row['n']),
      )
  return table
