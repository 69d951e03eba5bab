"""Sections that served policies were trained with, where their servers tell.

Mode 'serve_policy' tells of a run's policy what its workdir would: how it is asked,
its limits, its environment and its panel. An evaluation takes that for what it
leaves open, as it does for a workdir.
"""

import asyncio
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import aiohttp
from ml_collections import ConfigDict

from agentrl.config import evaluation, resume
from agentrl.config.evaluation import Evaluated
from agentrl.config.modes import Evaluate
from agentrl.errors import ConfigError, EngineError
from agentrl.inference.chat_endpoint import ChatEndpoint, Unreachable
from agentrl.inference.control import ControlClient
from agentrl.inference.options import API, ChatOptions
from agentrl.runtime import workdir as workdir_lib
from agentrl.serving import remote
from agentrl.serving.options import SamplerOptions

Told = dict[str, dict[str, Any]]

_FILE = 'told.json'
_KEY = 'trained_with'
_ANSWER_S = 30.0  # limit of a description
_SECTIONS = ('env', 'agent', 'rollout', 'eval')
# Files, servers and secrets of their machine mean something else, or nothing, here.
_THEIRS = ('url', 'token_file', 'retry_s', 'timeout_s', 'task_file')


def read(
    config: ConfigDict, directory: pathlib.Path | None = None
) -> tuple[tuple[Evaluated, ...], Told]:
  """The policies of an evaluation, under what their servers tell of them.

  Args:
    config: of mode 'evaluate'.
    directory: the workdir of an evaluation that is to be played: it waits for
      servers that are still starting, and one that is played already needs none.

  Returns:
    The policies, and what was told, for `keep`.

  Raises:
    AgentrlError: a field is wrong, or a server tells what cannot be used.
  """
  told = asyncio.run(_ask(config, directory))
  return evaluation.read(config, told), told


def whole(config: ConfigDict, workdir: str | None = None) -> Evaluate:
  """The checked config; what it leaves open is that of the runs it names.

  Args:
    config: as `read` has it.
    workdir: likewise.

  Raises:
    AgentrlError: as `read`.
  """
  directory = pathlib.Path(workdir) if workdir else None
  return evaluation.whole(config, read(config, directory)[0])


def keep(told: Told, directory: pathlib.Path) -> None:
  """Keeps what was told in the workdir, for a time without the servers."""
  if told:
    text = json.dumps(told, indent=2, sort_keys=True) + '\n'
    (directory / _FILE).write_text(text)


def trained_with(config: ConfigDict) -> Mapping[str, Any] | None:
  """The sections that the model of any config was trained with, if known.

  Raises:
    AgentrlError: they cannot be read.
  """
  if config.mode != 'evaluate':
    return resume.trained_with(config.model.name)
  told = asyncio.run(_ask(config, None))
  return told.get(config.model.name) or resume.trained_with(config.model.name)


async def _ask(config: ConfigDict, directory: pathlib.Path | None) -> Told:
  """Sections by source, without sources that tell nothing."""
  before: Told = {}
  if directory is not None and (directory / _FILE).exists():
    before = workdir_lib.read_record(directory / _FILE)
  # What was played was played under what was told then.
  wait = directory is not None and not (directory / workdir_lib.CONFIG).exists()
  sections = {}
  async with aiohttp.ClientSession() as session:
    for source in evaluation.split('model.name', config.model.name):
      kind = evaluation.kind_of(source)
      try:
        if kind == 'server':
          answer = await _ask_server(session, source, config, wait)
        elif kind == API:
          answer = await _ask_endpoint(session, config)
        else:
          continue
      except _Silent:
        answer = before.get(source)
      if answer is not None:
        where = config.api.url if kind == API else source
        sections[source] = _checked(answer, where, config)
  return sections


class _Silent(Exception):
  """A server cannot be asked now."""


async def _ask_server(
    session: aiohttp.ClientSession, url: str, config: ConfigDict, wait: bool
) -> Any:
  chosen = config.sampler
  sampler = SamplerOptions(
      kind='sglang', urls=(url,), api_key_file=chosen.api_key_file
  )
  client = ControlClient(
      session,
      [url],
      timeout_s=_ANSWER_S,
      api_key=remote.read_keys(sampler).api,
  )
  try:
    return (await client.server_info()).get(_KEY)
  except EngineError as error:
    if not error.retryable:
      return None  # no server of this kind: opening it says so
    if not wait:
      raise _Silent from error
  await asyncio.to_thread(remote.warn_unreachable, sampler)
  await client.wait_ready(chosen.timeout_s)
  return (await client.server_info()).get(_KEY)


async def _ask_endpoint(
    session: aiohttp.ClientSession, config: ConfigDict
) -> Any:
  api = config.api
  if not (isinstance(api.url, str) and isinstance(api.model, str)):
    return None  # it has to be named, as reading the config says
  options = ChatOptions(
      url=api.url,
      model=api.model,
      token_file=api.token_file,
      token_variable=api.token_variable,
  )
  options.check()
  try:
    endpoint = ChatEndpoint(session, options)
  except ConfigError:
    return None  # there is no key here: opening it says so
  try:
    return (await endpoint.card()).get(_KEY)
  except Unreachable as error:
    raise _Silent from error  # opening it fails at once


def _checked(answer: Any, where: str, config: ConfigDict) -> dict[str, Any]:
  """The sections that are told, without what is of another machine.

  Raises:
    ConfigError: they are none, or name code of their own.
  """
  if not isinstance(answer, dict) or not all(
      isinstance(section, dict) for section in answer.values()
  ):
    raise ConfigError(
        f'{where} tells {_KEY}={str(answer)[:100]!r}, which are no sections of'
        ' a config: it is no server of this project, or of another version.'
        ' Evaluate the workdir of the run, or a folder that was exported.'
    )
  sections = {
      name: {k: v for k, v in answer[name].items() if k not in _THEIRS}
      for name in _SECTIONS
      if name in answer
  }
  name = sections.get('env', {}).get('name')
  named = config.env.name or config.eval.panels
  # A module to import is the user's to name, not a server's.
  if not named and isinstance(name, str) and ':' in name:
    raise ConfigError(
        f'The policy at {where} was trained on env.name={name!r}, which is code'
        f' of its own: if you have it here, say --config.env.name={name}.'
    )
  return sections
