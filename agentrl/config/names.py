"""Names that a config lacks: what was meant, and where it went."""

import difflib
from collections.abc import Mapping
from typing import Any

# Refused whatever the mode, with the way out; `api_key` would stand in
# config.json and in the process list.
_REFUSED = {
    'sampler.api_key': (
        'sampler.api_key would stand in config.json and in the process list:'
        ' put the key into a file that only you can read and name it in'
        ' sampler.api_key_file, or set AGENTRL_SAMPLER_API_KEY.'
    ),
    'sampler.admin_key': (
        'sampler.admin_key would stand in config.json and in the process list:'
        ' put the key into a file that only you can read and name it in'
        ' sampler.admin_key_file, or set AGENTRL_SAMPLER_ADMIN_KEY.'
    ),
    'rollout.top_p': (
        'rollout.top_p would sample from another distribution than the'
        ' log-probabilities describe: training has top_p=1.0 and top_k=-1.'
    ),
    'rollout.top_k': (
        'rollout.top_k would sample from another distribution than the'
        ' log-probabilities describe: training has top_p=1.0 and top_k=-1.'
    ),
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
_REFUSED_IN = {
    'sft': _OFFLINE,
    'dpo': _OFFLINE,
    'agentevol': (
        _OFFLINE
        | {'checkpoint.every': 'checkpoint.every: each round is saved.'}
    ),
}
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
    path: str, mode: str, known: Mapping[str, Mapping[str, Any]]
) -> str:
  """What is said of a field that the configs of a mode lack.

  Args:
    path: dotted.
    mode: of the config.
    known: the fields of each mode, by their paths.
  """
  refused = _REFUSED | _REFUSED_IN.get(mode, {})
  for name, reason in refused.items():
    if path == name:
      return reason
  if path in RENAMED:
    return f'{path} is called {RENAMED[path]} now.'
  elsewhere = [
      other
      for other in known
      if any(f'{name}.'.startswith(f'{path}.') for name in known[other])
  ]
  if elsewhere:
    return (
        f'{path} has no effect with mode={mode!r}; it acts in'
        f' {", ".join(elsewhere)}.'
    )
  found = f'Unknown field {path}'
  meant = _meant(path, known[mode])
  if meant:
    return f'{found}. Did you mean {" or ".join(meant)}?'
  section, _, _ = path.rpartition('.')
  beside = {
      name[len(section) + bool(section) :].partition('.')[0]
      for name in known[mode]
      if name.startswith(f'{section}.' if section else '')
  }
  if not beside:
    beside = {name.partition('.')[0] for name in known[mode]}
    return f'{found}; known sections: {", ".join(sorted(beside))}.'
  return f'{found}; known: {", ".join(sorted(beside))}.'


def _meant(path: str, known: Mapping[str, Any]) -> list[str]:
  """The fields, or the section, that a wrong path may mean."""
  *parents, name = path.split('.')
  parents = [_SYNONYMS.get(part, part) for part in parents]
  name = _SYNONYMS.get(name, name)
  sections = {path.rpartition('.')[0] for path in known}
  guess = '.'.join([*parents, name])
  if guess in known or guess in sections:
    return [guess]
  near = difflib.get_close_matches(guess, [*known, *sections], 1, 0.8)
  # The right name in another section, unless that one is close as a whole.
  same = [x for x in known if x.rpartition('.')[2] == name][:3]
  return same if same and not set(near) & set(same) else near
