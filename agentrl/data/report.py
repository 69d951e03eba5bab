"""Every token of an episode beside its mask, rewards and log-probabilities.

Mask and alignment bugs do not crash; they train the wrong tokens. A
`TokenTable` puts an episode beside the arrays that a train step would use,
`problems` names contradictions, and `terminal` shows it in colour. In a browser
the viewer shows the same.
"""

import dataclasses
import itertools
import math
import unicodedata
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Episode

# Blue for good, orange for bad: distinct for colour-blind readers, too.
_GOOD, _BAD = '#1f6fd0', '#c2570c'


@dataclasses.dataclass(frozen=True)
class TokenTable:
  """One episode of T tokens and the arrays of its row in a batch.

  Every sequence is `[T]` and describes the token at its own index; None leaves
  a column out. Mask and sampler log-probabilities are the episode's.
  """

  episode: Episode
  texts: Sequence[str]  # each id on its own, control tokens spelled out
  rewards: Sequence[float] | None = None
  returns: Sequence[float] | None = None
  advantages: Sequence[float] | None = None
  old_logprobs: Sequence[float] | None = None
  ref_logprobs: Sequence[float] | None = None
  teacher_logprobs: Sequence[float] | None = None
  values: Sequence[float] | None = None
  shaped_rewards: Sequence[float] | None = None  # with KL and punishments
  turn_groups: Sequence[int] | None = None  # turns from one observation

  def __post_init__(self):
    length = len(self.episode.tokens)
    if not length:
      raise ValueError(
          f'Episode {self.episode.episode_id!r} has no tokens to show; it was'
          ' written without them.'
      )
    for name, values in {'texts': self.texts, **self.columns()}.items():
      if len(values) != length:
        raise ValueError(
            f'Episode {self.episode.episode_id!r} has {length} tokens, but'
            f' {len(values)} {name}.'
        )

  def columns(self) -> dict[str, Sequence[float]]:
    """The numbers that there are, by name, in the order to show them."""
    columns = {
        'reward': self.rewards,
        'shaped_reward': self.shaped_rewards,
        'return': self.returns,
        'advantage': self.advantages,
        'sampler_logprob': self.episode.sampler_logprobs,
        'old_logprob': self.old_logprobs,
        'ref_logprob': self.ref_logprobs,
        'teacher_logprob': self.teacher_logprobs,
        'value': self.values,
        'turn_group': self.turn_groups,
    }
    return {k: v for k, v in columns.items() if v is not None}


@dataclasses.dataclass(frozen=True)
class Span:
  """A maximal run of tokens with one mask."""

  start: int
  stop: int
  turn: int | None  # the turn that sampled it; None for inserted tokens


def token_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
  """Each id on its own: control tokens spelled out, half characters as U+FFFD."""
  return [tokenizer.decode([i], skip_special=False) for i in ids]


def spans(episode: Episode) -> list[Span]:
  """Cuts an episode where its mask changes."""
  result, start, turn = [], 0, 0
  for sampled, run in itertools.groupby(episode.completion_mask):
    stop = start + sum(1 for _ in run)
    result.append(Span(start, stop, turn if sampled else None))
    start, turn = stop, turn + sampled
  return result


def problems(table: TokenTable) -> list[str]:
  """Contradictions in an episode, in sentences; empty for a healthy one."""
  episode = table.episode
  messages = []
  lengths = [s.stop - s.start for s in spans(episode) if s.turn is not None]
  expected = [turn.completion_tokens for turn in episode.turns]
  if lengths != expected:
    messages.append(
        f'The mask has sampled runs of {lengths} tokens, but the turns sampled'
        f' {expected}.'
    )
  for name, values in table.columns().items():
    pairs = list(zip(values, episode.completion_mask, strict=True))
    stray = [i for i, (value, on) in enumerate(pairs) if value and not on]
    if stray:
      messages.append(
          f'{len(stray)} tokens that nobody sampled have a {name}, first the'
          f' one at {stray[0]}.'
      )
    broken = [
        i for i, (x, on) in enumerate(pairs) if on and not math.isfinite(x)
    ]
    if broken:
      messages.append(
          f'{len(broken)} sampled tokens have a {name} that is no number, first'
          f' the one at {broken[0]}.'
      )
  if table.rewards is not None:
    total, wanted = sum(table.rewards), episode.episode_return
    if not math.isclose(total, wanted, rel_tol=1e-5, abs_tol=1e-6):
      messages.append(
          f'The rewards of the tokens sum to {total:g}, those of the turns to'
          f' {wanted:g}.'
      )
  return messages


def facts(episode: Episode) -> dict[str, str]:
  """An episode in a few words."""
  words = {
      'environment': f'{episode.env} task {episode.task_id} ({episode.split})',
      'stopped by': episode.stop_reason,
      'success': 'yes' if episode.success else 'no',
      'return': f'{episode.episode_return:g}',
      'turns': f'{len(episode.acts)} of {episode.horizon}',
      'tokens': (
          f'{len(episode.tokens)}, of them'
          f' {sum(episode.completion_mask)} sampled'
      ),
      'segments': str(len(episode.segments)),
      'attempt': str(episode.attempt + 1),
      'policy version': str(episode.policy_version),
      'seed': str(episode.seed),
  }
  if episode.error:
    words['error'] = episode.error
  return words


def number(value: float) -> str:
  """A number as the tables print it: an exact zero is a dot, to stand back."""
  return '·' if value == 0 else f'{value:.4g}'


def visible(text: str) -> str:
  """Text that cannot command a terminal or reorder a line.

  Control, format and surrogate characters are spelled out as escapes; a line
  break keeps breaking the line behind a mark of its own.
  """
  return ''.join(
      '⏎\n' if c == '\n'
      else c.encode('unicode_escape').decode()
      if unicodedata.category(c) in ('Cc', 'Cf', 'Cs', 'Co', 'Cn')
      else c
      for c in text
  )  # fmt: skip


def cell(text: str) -> str:
  """A token's text as the tables print it: on one line, with its blanks."""
  return visible(text).replace('\n', '').replace(' ', '␣')


def terminal(tables: Sequence[TokenTable]) -> RenderableType:
  """Renders episodes for `rich.console.Console.print`.

  First the transcript, where sampled tokens are bright and coloured by
  advantage and all others dim; then a table with a row for every sampled token,
  and one for each run of inserted ones.
  """
  parts: list[RenderableType] = [
      Text.assemble(
          ('Underlined', 'bold underline'),
          ' tokens were sampled and are trained on, ',
          ('dim', 'dim'),
          ' ones were inserted. Advantage: ',
          (' positive ', f'white on {_GOOD}'),
          ' ',
          (' negative ', f'white on {_BAD}'),
      )
  ]
  for table in tables:
    episode = table.episode
    parts.append(Text(f'\n{visible(episode.episode_id)}', style='bold'))
    for name, value in facts(episode).items():
      parts.append(Text(f'  {name}: {visible(value)}'))
    for problem in problems(table):
      parts.append(Text(f'  PROBLEM: {problem}', style='bold red'))
    parts += [_transcript(table), _rows(table)]
  return Group(*parts)


def _transcript(table: TokenTable) -> Text:
  text = Text()
  for index, sampled in enumerate(table.episode.completion_mask):
    style = _style(table, index) if sampled else 'dim'
    text.append(visible(table.texts[index]), style=style)
  return text


def _style(table: TokenTable, index: int) -> str:
  advantage = table.advantages[index] if table.advantages is not None else 0.0
  if advantage == 0 or math.isnan(advantage):
    return 'bold underline'
  return f'bold underline white on {_GOOD if advantage > 0 else _BAD}'


def _rows(table: TokenTable) -> Table:
  columns = table.columns()
  # Ten columns fit into a terminal of 80: words of a name stand on lines of
  # their own, and only tokens give way.
  rows = Table(
      box=None, header_style='bold', pad_edge=False, padding=(0, 1, 0, 0)
  )
  rows.add_column('index', justify='right', no_wrap=True)
  rows.add_column('id', justify='right', no_wrap=True)
  rows.add_column('token', overflow='fold', min_width=11)
  rows.add_column('mask', no_wrap=True)
  for name in columns:
    rows.add_column(name.replace('_', '\n'), justify='right', no_wrap=True)
  for span in spans(table.episode):
    if span.turn is None:
      rows.add_row(
          str(span.start),
          '',
          f'{span.stop - span.start} inserted',
          '0',
          style='dim',
      )
      continue
    for i in range(span.start, span.stop):
      rows.add_row(
          str(i),
          str(table.episode.tokens[i]),
          Text(cell(table.texts[i])),
          '1',
          *(number(values[i]) for values in columns.values()),
      )
  return rows
