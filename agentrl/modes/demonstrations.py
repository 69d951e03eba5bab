"""The demonstrations of a run: from files, from the expert, kept in the workdir.

Every process of several reads the same files and has all episodes.
"""

import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from agentrl.data import conversations, episodes as episodes_lib
from agentrl.modes import build, learning
from agentrl.modes.build import Run
from agentrl.modes.session import Session
from agentrl.parallel import distributed
from agentrl.rollout import demonstrations
from agentrl.types import Episode


def build_data(session: Session) -> tuple[Run, Any, list[Episode]]:
  """The run, its first parameters, and what `config.data` describes.

  The episodes are kept in the workdir: a run that goes on needs neither the
  files nor the expert.
  """
  config, data = session.config, session.config.data
  setup = build.make_setup(session, expert=config.plays_expert)
  path = session.directory / 'episodes' / 'demonstrations.jsonl'
  if setup.checkpoints.latest is not None:
    run, params = build.make_run(setup, lambda: [])  # there is a tokenizer
    return run, params, list(episodes_lib.read(path))
  items = []
  if data.files:
    read = functools.partial(conversations.read, env=config.env.name)
    items = demonstrations.read_files(data.files, read, session.console)
    items = demonstrations.worth_imitating(
        items, data.min_return, session.console
    )

  def texts() -> list[str]:
    texts = [text for item in items for text in conversations.texts_of(item)]
    if data.expert_episodes:
      texts += build.expert_texts(session, setup.arena, data.expert_horizon)
    return texts

  run, params = build.make_run(setup, texts)
  episodes = []
  if items:
    episodes += demonstrations.to_episodes(
        run.collector.agent,
        [(item,) for item in items],
        max_context=config.rollout.max_context,
        own_opening=data.own_opening,
        console=session.console,
    )
  if data.expert_episodes:
    episodes += learning.play_expert(
        run, run.arena, data.expert_episodes, data.expert_horizon
    )
  write_episodes(session, path, episodes)
  return run, params, episodes


def write_episodes(
    session: Session,
    path: pathlib.Path,
    episodes: Sequence[Episode],
    **options: Any,
) -> None:
  """Writes a file once; afterwards every process can read it."""
  if session.first:
    episodes_lib.write(path, episodes, **options)
  distributed.wait(path.name)
