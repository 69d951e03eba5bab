"""The README.md of an exported policy: its training and its evaluations."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentrl.models.config import TransformerConfig
from agentrl.runtime import summary as summary_lib

# Sections of the run's config that determined the weights. The others (keys,
# servers, folders, devices) belong to the machine that it ran on.
_SECTIONS = (
    'mode',
    'seed',
    'num_steps',
    'agent',
    'model',
    'data',
    'warmstart',
    'rollout',
    'horizon',
    'explore',
    'pairs',
    'algo',
    'optim',
)

_LIMITS = ('max_completion_tokens', 'max_context', 'concurrency')


def trained_with(config: Mapping[str, Any]) -> dict[str, Any]:
  """The sections of agentrl.json: prompts and limits of a policy in training.

  Args:
    config: of the run, as its workdir keeps it.

  Returns:
    The sections env, agent, rollout (its limits) and eval of the config,
    without servers, keys and files of the machine that it ran on.
  """
  eval_section = {**config['eval'], 'task_file': None}
  rollout = config['rollout']
  return {
      'env': {
          'name': config['env']['name'],
          'url': None,
          'options': config['env'].get('options', {}),
      },
      'agent': dict(config['agent']),
      'rollout': {name: rollout[name] for name in _LIMITS if name in rollout},
      'eval': eval_section,
  }


class PastEvaluation(NamedTuple):
  """One evaluation of the run.

  Attributes:
    name: as the run calls it.
    summary: success with its interval, see `evaluation.summarise`.
    is_this: True if it evaluated these very weights.
  """

  name: str
  summary: Mapping[str, Any]
  is_this: bool


def evaluations(
    workdir: pathlib.Path, host: Mapping[str, Any], mode: str
) -> list[PastEvaluation]:
  """Evaluations of a run's policies, up to a checkpoint.

  Args:
    workdir: of the run.
    host: the host's record of the checkpoint.
    mode: of the run.
  """
  step, summaries = host['books']['step'], dict(host['evals'])
  if mode == 'agentevol':  # its step 1 is the training before the rounds
    of_this = {'before' if step == 1 else f'round_{step - 1}'}
  else:
    of_this = {f'step_{step}' if step else 'before'}
  found = summary_lib.read(workdir)
  if found and found['steps'] == step:  # the run ended here
    summaries |= found['eval']
    of_this.add('after')
  return [
      PastEvaluation(name, summary, name in of_this)
      for name, summary in summaries.items()
      if summary['mean'] is not None
  ]


def make(
    name: str,
    config: Mapping[str, Any],
    evals: list[PastEvaluation],
    host: Mapping[str, Any],
    shape: TransformerConfig,
    *,
    dtype: str,
    adapter_of: str | None = None,
    chance: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
  """The text of README.md.

  Args:
    name: of the run.
    config: of the run, as its workdir keeps it.
    evals: from `evaluations`.
    host: the host's record of the checkpoint.
    shape: of the decoder.
    dtype: of the files.
    adapter_of: the model to which the files add; None: they are a whole one.
    chance: success of random actions and the expert on the same tasks, by what
      the table calls them; None: not measured.
  """
  env = config['env']['name']
  started = config['model']['name']
  rows = {
      'trained by': f"agentrl, `mode='{config['mode']}'`, on `{env}`",
      'started from': f'`{started}`',
      'checkpoint': f'{host["books"]["step"]} of run `{name}`',
      'tokens seen': f'{int(host["totals"]["tokens"]):,}',
      'architecture': (
          f'`{shape.family}`, {shape.num_layers} layers, width'
          f' {shape.hidden_size}, {shape.num_params:,} parameters'
      ),
      'weights': f'{dtype} (trained in float32)',
  }
  library = 'transformers'
  if adapter_of is not None:
    rows['files'] = f'an adapter of `{adapter_of}`, in the format of `peft`'
    library = 'peft'
  kept = {key: config[key] for key in _SECTIONS if key in config}
  kept['env'] = {key: config['env'].get(key) for key in ('name', 'options')}
  return '\n'.join([
      '---',
      f'library_name: {library}',
      'pipeline_tag: text-generation',
      'tags: [agentrl, reinforcement-learning, agent]',
      '---',
      '',
      f'# {name}',
      '',
      (
          f'A language model that acts in `{env}`. It was trained on text of'
          ' this environment; nothing is known of it elsewhere.'
      ),
      '',
      '| | |',
      '|---|---|',
      *(f'| {key} | {value} |' for key, value in rows.items()),
      '',
      '## Evaluation',
      '',
      *_evaluation(evals, config['eval'], chance or {}),
      '',
      '## Config',
      '',
      '```json',
      json.dumps(kept, indent=2),
      '```',
      '',
  ])


def _evaluation(
    evals: list[PastEvaluation],
    section: Mapping[str, Any],
    chance: Mapping[str, Mapping[str, Any]],
) -> list[str]:
  if not evals:
    return ['The run made none.']
  tasks = f'tasks of the {section.get("split", "test")} split'
  if section.get('task_file'):
    tasks = 'tasks of an item file'
  of_these = (
      'Lines marked * are of these weights, the others of earlier ones.'
      if any(e.is_this for e in evals)
      else 'None was made with these weights: all are of earlier ones.'
  )
  named = [(f'{x.name}{" *" * x.is_this}', x.summary) for x in evals]
  rows = [
      f'| {name} | {summary["mean"]:.3f} |'
      f' {summary["low"]:.3f} to {summary["high"]:.3f} | {summary["n"]} |'
      for name, summary in (*named, *chance.items())
  ]
  return [
      f'Success on {tasks}. {of_these}',
      '',
      '| when | success | 95% interval | episodes |',
      '|---|---|---|---|',
      *rows,
  ]
