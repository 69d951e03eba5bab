"""A session in a temporary workdir, and runs that have a tiny network."""

import contextlib
import dataclasses
import io
import types

import pytest
import rich.console

from agentrl.modes import build
from agentrl.modes.session import Session
from agentrl.runtime.event_loop import EventLoop
from agentrl.training.checkpoint import Checkpoints
from agentrl.training.language_model import LanguageModel
from agentrl.training.run_record import RunRecord
from agentrl.training.supervised import Network
from tests import tiny


@pytest.fixture
def make_session(tmp_path):
  """Makes the session of a config; its console can be read."""
  with contextlib.ExitStack() as stack:
    loop = stack.enter_context(EventLoop())

    def make_session(config, *, known=False):
      directory = tmp_path / 'run'
      directory.mkdir(exist_ok=True)
      console = rich.console.Console(file=io.StringIO(), width=500)
      return Session(config, directory, loop, stack, console, known)

    yield make_session


@pytest.fixture
def make_run(make_session):
  """Makes a run of these parts, beside a tiny network and an empty record.

  Parts of an arena, and `collector`, are those of its only environment.
  """

  def make_run(config, **parts):
    session = make_session(config)
    checkpoints = Checkpoints(session.directory / 'checkpoints')
    session.stack.callback(checkpoints.close)
    tokenizer = types.SimpleNamespace(vocab_size=tiny.CONFIG.vocab_size)
    parts = {
        'session': session,
        'record': RunRecord(session.directory, session.console, writes=True),
        'mesh': tiny.one_device(),
        'checkpoints': checkpoints,
        'model': LanguageModel(tiny.CONFIG, None, tokenizer, 'tiny'),
        'network': Network(tiny.MODULE, tiny.one_device()),
    } | parts
    of_arena = dict.fromkeys(x.name for x in dataclasses.fields(build.Arena))
    of_arena |= {'name': '', 'weight': 1.0, 'config': config, 'tasks': ()}
    of_arena |= {name: parts.pop(name) for name in {*of_arena} & parts.keys()}
    arena = build.Arena(**of_arena)
    collector = parts.pop('collector', None)
    parts = {'collectors': {arena.name: collector}} | parts
    rest = dict.fromkeys(x.name for x in dataclasses.fields(build.Run))
    return build.Run(**(rest | {'arenas': [arena]} | parts))

  return make_run


@pytest.fixture
def said():
  """Reads what a session, or a run, has shown."""
  return lambda run: getattr(run, 'session', run).console.file.getvalue()
