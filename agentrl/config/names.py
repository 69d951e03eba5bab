"""Names that a config lacks: what was meant, and where it went."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

# Refused whatever the mode, with the way out; `api_key` would stand in
# config.json and in the process list.
_REFUSED = {
    f'sampler.{key}': (
        f'sampler.{key} would stand in config.json and in the process list: put'
        ' the key into a file that only you can read and name it in'
        f' sampler.{key}_file, or set AGENTRL_SAMPLER_{key.upper()}.'
    )
    for key in ('api_key', 'admin_key')
} | {
    f'rollout.{name}': (
        f'rollout.{name} would sample from another distribution than the'
        ' log-probabilities describe: training has top_p=1.0 and top_k=-1.'
    )
    for name in ('top_p', 'top_k')
}
# In these modes the data decides how many updates there are.
_OFFLINE = {
    'optim.warmup_steps': (
        'optim.warmup_steps has no effect in this mode: the data decides how'
        ' many updates there are. Set algo.warmup, a share of them.'
    ),
    'eval.every': (
        'eval.every has no effect in this mode: it evaluates before and after,'
        ' and agentevol after each round.'
    ),
}
_ROUNDS = {'checkpoint.every': 'checkpoint.every: each round is saved.'}
_REFUSED_IN = dict(sft=_OFFLINE, dpo=_OFFLINE, agentevol=_OFFLINE | _ROUNDS)
# Old name -> new name.
RENAMED: Mapping[str, str] = {}
# What others call a field.
_SYNONYMS = {
    'learning_rate': 'lr',
    'rate': 'lr',
    'optimizer': 'optim',
    'optimiser': 'optim',
    'batch_size': 'tasks_per_step',
    'beta': 'kl_coef',
    'kl': 'kl_coef',
    'use_kl': 'kl_coef',
    'lambda': 'lam',
    'max_tokens': 'max_completion_tokens',
    'max_new_tokens': 'max_completion_tokens',
    'max_steps': 'num_steps',
    'max_turns': 'turns',
    'n': 'group_size',
    'num_generations': 'group_size',
}


def unknown(
    path: str, mode: str, fields: Mapping[str, Mapping[str, Any]]
) -> str:
  """The message about a field that the configs of a mode lack.

  Args:
    path: dotted.
    mode: of the config.
    fields: the fields of each mode, by their paths.
  """
  refused = _REFUSED | _REFUSED_IN.get(mode, {})
  if path in refused:
    return refused[path]
  if path in RENAMED:
    return f'{path} is called {RENAMED[path]} now.'
  elsewhere = [
      x for x in fields if path in fields[x] or children(path, fields[x])
  ]
  if elsewhere:
    modes = ', '.join(elsewhere)
    return f'{path} has no effect with mode={mode!r}; it acts in {modes}.'
  if meant := _meant(path, fields[mode]):
    return f'Unknown field {path}. Did you mean {" or ".join(meant)}?'
  section = path.rpartition('.')[0]
  beside = section and children(section, fields[mode])
  which = 'known' if beside or not section else 'known sections'
  listed = ', '.join(sorted(beside or children('', fields[mode])))
  return f'Unknown field {path}; {which}: {listed}.'


def children(section: str, paths: Iterable[str]) -> list[str]:
  """Names in a section, the whole config by '', among the known paths."""
  start = f'{section}.' if section else ''
  inner = (path[len(start) :] for path in paths if path.startswith(start))
  return list(dict.fromkeys(name.partition('.')[0] for name in inner))


def _meant(path: str, paths: Mapping[str, Any]) -> list[str]:
  """The fields, or the section, that a wrong path may mean."""
  *parents, name = [_SYNONYMS.get(part, part) for part in path.split('.')]
  sections = {path.rpartition('.')[0] for path in paths}
  guess = '.'.join([*parents, name])
  if guess in paths or guess in sections:
    return [guess]
  near = difflib.get_close_matches(guess, [*paths, *sections], 1, 0.8)
  # The right name in another section, unless that one is close as a whole.
  same = [x for x in paths if x.rpartition('.')[2] == name][:3]
  return same if same and not set(near) & set(same) else near
