"""mode='evaluate': success of a policy on a fixed list of held-out tasks."""

import contextlib
import json
import os
import pathlib
import sys
import time

import rich.console
from ml_collections import ConfigDict

from agentrl.config import resume, sections
from agentrl.data import episodes as episodes_lib
from agentrl.evaluation import report
from agentrl.evaluation.evaluate import Evaluation, seeded, summarise
from agentrl.inference.sampler import Sampler
from agentrl.rollout.agent import make_agent
from agentrl.rollout.environment import Environment
from agentrl.runtime import workdir as workdir_lib
from agentrl.runtime.event_loop import EventLoop, Interrupted
from agentrl.serving import start as serving_lib
from agentrl.training import compile_cache, language_model, ranks
from agentrl.training.collection import Collector

read = resume.read


def run(config: ConfigDict, workdir: str | None) -> None:
  """Evaluates `config.model`; leaves episodes and a summary in `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  config = read(config)
  compile_cache.use(config.compile_cache)
  ranks.join(os.environ, config.mode, ready=False)
  directory = workdir_lib.make(workdir)
  console = rich.console.Console()
  began = time.monotonic()
  with contextlib.ExitStack() as stack:
    loop = stack.enter_context(EventLoop())
    environment = stack.enter_context(Environment(loop, config.env))
    panel(
        environment, config.eval
    )  # refused now, not after the model is loaded
    model, version = language_model.load_policy(config.model.name)
    number = int(version) if version.isdecimal() else 0
    agent = make_agent(environment.spec, model.tokenizer, config.agent)
    try:
      serving = serving_lib.start_serving(
          stack,
          loop,
          serving_lib.ServedPolicy(
              model=model,
              version=number,
              dtype=config.model.dtype,
              max_context=config.rollout.max_context,
              seed=config.eval.seed,
              chat_template=config.agent.template,
          ),
          config.sampler,
          directory,
      )
      result = run_panel(
          Collector(loop, console, environment, agent, config.rollout),
          serving.make_sampler(temperature=config.eval.temperature),
          config.eval,
          name='eval',
          title='evaluation',
          policy_version=number,
      )
    except Interrupted:
      print('Stopped; nothing was written.')
      sys.exit(130)
  write_episodes(directory, 'eval', result, tokens=config.rollout.save_tokens)
  summary = {
      'mode': 'evaluate',
      'steps': 0,
      'wall_s': time.monotonic() - began,
      'tokens': sum(
          len(e.tokens) for group in result.groups for e in group.episodes
      ),
      'model': config.model.name,
      'weight_version': version,
      'eval': {config.eval.split: result.summary},
  }
  path = directory / 'summary.json'
  path.write_text(json.dumps(summary, indent=2) + '\n')
  report.show(console, config.env.name, result.summary)
  console.print(f'See {path}', highlight=False, soft_wrap=True)


def panel(environment: Environment, config: sections.Eval) -> tuple[int, ...]:
  """The tasks that evaluations compare on.

  Raises:
    ConfigError: there are fewer.
    DataError: the item file is not of this environment.
  """
  return environment.panel(config.split, config.num_tasks, config.task_file)


def run_panel(
    collector: Collector,
    sampler: Sampler,
    config: sections.Eval,
    *,
    name: str,
    title: str,
    policy_version: int,
) -> Evaluation:
  """Plays the fixed panel.

  Args:
    collector: plays the episodes.
    sampler: of the policy.
    config: which panel, and how it is played.
    name: prefix of the episodes' ids.
    title: of the progress bar.
    policy_version: for the record.

  Raises:
    AgentrlError: as `panel` and `Collector.collect`.
    Interrupted: the user asked to stop.
  """
  environment = collector.environment
  groups = collector.collect(
      list(enumerate(panel(environment, config))),
      config.samples,
      sampler,
      name=name,
      title=title,
      split=config.split,
      horizon=config.horizon,
      policy_version=policy_version,
      seed=config.seed,
      wrap=lambda play: seeded(play, config.seed),
  )
  return Evaluation(
      summarise(groups, seed=config.seed, subtask=environment.subtasks()),
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
