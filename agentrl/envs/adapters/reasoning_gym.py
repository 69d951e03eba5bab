"""reasoning-gym: questions that are made without end, and answers that it checks.

`env.options.dataset` names one of its datasets, `config` sets fields of it. A task is a
question; the policy may try `attempts` times, and is told that it was wrong. Answers are
scored in a process of their own (`answer_scorer`), since some datasets evaluate them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.envs import base
from agentrl.envs.adapters import caching
from agentrl.envs.adapters.answer_scorer import Scorer
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError, EnvError
from agentrl.types import StepResult

_OF_SPLIT = 100_000  # task ids; each split is a dataset of its own seed
_SIZES = {'train': 20_000, 'dev': 1000, 'test': 1000}
_FIRST = {split: i * _OF_SPLIT for i, split in enumerate(_SIZES)}
_WRONG = 'This is not right.'


class Questions:
  """One question at a time; see `base.Env`."""

  def __init__(self, data: Sequence[Any], scorer: Scorer, attempts: int):
    self._data, self._scorer, self._attempts = data, scorer, attempts

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # nothing is left to chance
    split, index = divmod(task_id, _OF_SPLIT)
    sizes = list(_SIZES.values())
    if not (0 <= split < len(sizes) and index < sizes[split]):
      raise EnvError(f'reasoning_gym has no task {task_id}.')
    self._item = self._data[split][index]
    self._left = self._attempts
    return str(self._item['question'])

  def step(self, action: str) -> StepResult:
    score = self._scorer.score(self._item, action.strip())
    self._left -= 1
    right = score >= 1.0
    over = right or not self._left
    text = 'Right.' if right else _WRONG
    # What a wrong answer is worth in part counts once, at the end.
    return StepResult(text, score if over else 0.0, over, success=right)

  def available_actions(self) -> list[str]:
    return ['{text}']

  def expert_action(self) -> str:
    answer = self._item['answer']
    if answer is None:
      raise EnvError('reasoning_gym gives no answer to this question.')
    return str(answer)

  def close(self) -> None:
    pass


@caching.by_options
def datasets(name: str, config: Mapping[str, Any] | None) -> tuple[Any, ...]:
  """The dataset of each split.

  Raises:
    ConfigError: there is none of this name, or it has no such fields.
  """
  import reasoning_gym

  try:
    return tuple(
        reasoning_gym.create_dataset(
            name, **{'size': size, 'seed': seed, **(config or {})}
        )
        for seed, size in enumerate(_SIZES.values())
    )
  except (ValueError, TypeError, AssertionError) as error:
    raise ConfigError(f'env.options.dataset={name!r}: {error}') from error


def _open(**options: Any) -> base.EnvFactory:
  for name in ('size', 'seed'):
    if name in (options['config'] or ()):
      raise ConfigError(
          f'env.options.config: {name} is what splits and tasks decide; leave'
          ' it out.'
      )
  data = datasets(name=options['dataset'], config=options['config'])
  scorer = Scorer(options['dataset'], options['config'] or {})
  return base.Independent(
      lambda: Questions(data, scorer, options['attempts']), close=scorer.close
  )


def _tasks(split: str, **of_ids: Any) -> range:
  del of_ids  # ids are the same in each dataset
  return range(_FIRST[split], _FIRST[split] + _SIZES[split])


SPEC = EnvSpec(
    name='reasoning_gym',
    dialect=Dialect(),
    words=Words(
        full='You are asked a question. Your action is the answer alone.',
        compact='Answer.',
    ),
    functions=(Function('answer', ('{text}',)),),
    options={'dataset': 'chain_sum', 'config': None, 'attempts': 1},
    meanings={
        'dataset': 'name of a dataset of reasoning-gym',
        'config': 'fields of it, a dict',
        'attempts': 'answers that may be tried',
    },
    open_factory=_open,
    list_tasks=_tasks,
    task_options=('dataset', 'config'),
    success='The score of the answer is 1.',
    packages=('reasoning_gym',),
    requirements=('adapters',),
)
