"""mode='inspect': what will be trained, token by token."""

import itertools
import pathlib
from collections.abc import Sequence

import numpy as np
import rich.console
from ml_collections import ConfigDict

from agentrl.algos import grpo
from agentrl.data import collate, episodes as episodes_lib, report
from agentrl.errors import ConfigError, DataError
from agentrl.modes import reading
from agentrl.parallel import compile_cache
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import language_model
from agentrl.types import Episode, Group
from agentrl.viewer import export, export_page, learned as learned_lib, record
from agentrl.viewer.learned import Learned
from agentrl.weights import pretrained


def run(config: ConfigDict, workdir: str | None) -> None:
  """Prints a few groups of an episode file and writes them as a page.

  Raises:
    AgentrlError: the file or the tokenizer cannot be read.
  """
  del workdir
  config = reading.read(config)
  compile_cache.use(config.compile_cache)
  view = config.inspect
  path = pathlib.Path(view.episodes)
  episodes = list(episodes_lib.read(path))
  if not episodes:
    raise DataError(f'{path} holds no episode.')
  for episode in episodes:
    if not episode.tokens:
      raise DataError(
          f'{path}: episode {episode.episode_id!r} has no tokens to show; it'
          ' was played over messages, by an API model say, or written without'
          ' them (rollout.save_tokens=False).'
      )
  tokenizer = _tokenizer(view.tokenizer, path)
  arrays, learned = _arrays(path, episodes)
  shown = sum(len(g.episodes) for g in grouped(episodes)[: view.num_groups])
  tables = [
      report.TokenTable(
          episode=episode,
          texts=report.token_texts(tokenizer, episode.tokens),
          **{
              name: values[row, : len(episode.tokens)].tolist()
              for name, values in arrays.items()
          },
      )
      for row, episode in enumerate(episodes[:shown])
  ]
  console = rich.console.Console()
  console.print(report.terminal(tables))
  page = pathlib.Path(view.html or path.with_suffix('.html'))
  sources = [
      export.Source(
          record.decode(episodes_lib.to_line(table.episode).encode()),
          line,
          learned=learned,
          tokenizer=tokenizer,
          problems=report.problems(table),
      )
      for line, table in enumerate(tables)
  ]
  title = f'What is trained: {path.name}'
  page.write_text(
      export_page.page(title, export.collect(title, sources, grouped=False)),
      encoding='utf-8',
  )
  missing = '' if 'old_logprobs' in arrays else ' without old log-probabilities'
  console.print(
      f'{shown} of {len(episodes)} episodes{missing}; the page is {page}',
      highlight=False,
  )


def grouped(episodes: Sequence[Episode]) -> list[Group]:
  """Groups of an episode file, whose order is (task, replica).

  Episodes are named NAME-ORDINAL-REPLICA; one visit to a task is one ordinal.
  """
  visit = lambda e: (e.task_id, e.episode_id.rpartition('-')[0])
  return [
      Group(task_id=task_id, ordinal=ordinal, episodes=tuple(members))
      for ordinal, ((task_id, _), members) in enumerate(
          itertools.groupby(episodes, key=visit)
      )
  ]


# Of what training left, those that the terminal has columns for.
_SHOWN = (
    'advantages', 'returns', 'values', 'old_logprobs', 'ref_logprobs',
    'teacher_logprobs',
    'shaped_rewards', 'turn_groups',
)  # fmt: skip


def _arrays(
    path: pathlib.Path, episodes: Sequence[Episode]
) -> tuple[dict[str, np.ndarray], Learned]:
  """`[B, T]` arrays by the names of `TokenTable`, and what was learnt from.

  Where training left nothing, advantages are GRPO's.
  """
  groups = grouped(episodes)
  batch = collate.collate(groups)
  arrays = {
      'rewards': batch.rewards,
      # Where an algorithm has no return of its own, every sampled token is
      # credited with the whole one.
      'returns': batch.completion_mask * batch.episode_return[:, None],
  }
  learned = learned_lib.load(path)
  if learned is None:
    batch = grpo.advantages(batch, num_groups=len(groups))
    advantages = np.asarray(batch.advantages)
    return (
        arrays | {'advantages': advantages},
        Learned({'advantages': advantages}),
    )
  if learned.names and learned.shape != batch.tokens.shape:
    raise DataError(
        f'{path.with_suffix(".npz")} holds {learned.names[0]} of shape'
        f' {learned.shape}, but the episodes of {path} make'
        f' {batch.tokens.shape}; delete the former to see the latter alone.'
    )
  for name in learned.names:
    if name in _SHOWN:
      arrays[name] = learned.array(name)
  # The networks speak of the inserted tokens as well; nothing is learnt there.
  for name in ('old_logprobs', 'ref_logprobs', 'teacher_logprobs', 'values'):
    if name in arrays:
      arrays[name] = np.where(batch.completion_mask, arrays[name], 0)
  return arrays, learned


def _tokenizer(name: str | None, path: pathlib.Path) -> tokenizer_lib.Tokenizer:
  """The named tokenizer, or that of the run which wrote the episodes."""
  if name:
    path = pretrained.resolve(name)
    return tokenizer_lib.load(path, pretrained.open_gguf(path))
  # workdir/episodes/train/000000.jsonl
  for workdir in path.absolute().parents[1:3]:
    if (workdir / 'config.json').exists():
      return language_model.load_run_tokenizer(workdir)
  raise ConfigError(
      f'{path} is not in the workdir of a run, so its tokenizer is not known;'
      ' name it with tokenizer=DIR.'
  )
