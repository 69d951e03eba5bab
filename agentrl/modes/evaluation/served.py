"""A policy behind an SGLang server that somebody else started, weights and all."""

import asyncio
import dataclasses
from typing import Any

from agentrl.errors import (
    ConfigError,
    EngineError,
    EngineRefusal,
    WeightsError,
)
from agentrl.inference import compatibility
from agentrl.inference.compatibility import Needs
from agentrl.inference.sampler import Sampler
from agentrl.modes.evaluation import opening as opening_lib
from agentrl.modes.evaluation.opening import Opening, OpenPolicy
from agentrl.runtime import workdir as workdir_lib
from agentrl.serving import remote
from agentrl.serving.options import SamplerOptions
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.tokenizer import Tokenizer
from agentrl.training import language_model
from agentrl.weights import pretrained


def open_server(opening: Opening) -> OpenPolicy:
  """A policy that an SGLang server has; its weights stay there."""
  config, loop, url = opening.config, opening.loop, opening.evaluated.source
  sampler = dataclasses.replace(config.sampler, kind='sglang', urls=(url,))
  keys = remote.read_keys(sampler)
  client = Sampler(
      loop.session,
      [url],
      temperature=config.eval.temperature,
      timeout_s=sampler.timeout_s,
      max_attempts=sampler.max_attempts,
      api_key=keys.api,
      admin_key=keys.admin,
  )
  info = loop.run(_describe(client, sampler))
  compatibility.check(url, info, Needs(config.rollout.max_context, 0, None))
  tokenizer = _tokenizer_of(url, info, config.model.tokenizer)
  if not loop.run(client.knows(tokenizer.vocab_size - 1)):
    raise EngineRefusal(
        f'{url} does not know the id {tokenizer.vocab_size - 1} of its'
        ' tokenizer: name the right one in model.tokenizer.'
    )
  version = str(info.get('weight_version', 'default'))
  return opening_lib.talking(
      opening,
      tokenizer,
      client,  # which may give ids beyond the tokenizer's: rows that pad
      int(version) if version.isdecimal() else 0,
      weight_version=version,
      served={'samples': 'server', 'dtype': info.get('dtype')},
  )


async def _describe(client: Sampler, sampler: SamplerOptions) -> dict[str, Any]:
  """A server's words about itself, once it is up; what is no server is refused."""
  try:
    await client.model_info()
  except EngineError as error:
    if not error.retryable:
      raise
    await asyncio.to_thread(remote.warn_unreachable, sampler)
  await client.wait_ready(sampler.timeout_s)
  return await client.server_info() | await client.model_info()


def _tokenizer_of(
    url: str, info: dict[str, Any], chosen: str | None
) -> Tokenizer:
  """The tokenizer of a server: the chosen one, or the one that it names.

  Raises:
    ConfigError: it names none, or one that is not here.
  """
  default = info.get('tokenizer_path') or info.get('model_path')
  name = chosen or default
  way_out = 'name one: --config.model.tokenizer=FOLDER'
  if not isinstance(name, str):
    raise ConfigError(f'{url} names no tokenizer; {way_out}.')
  run = workdir_lib.run_of(name)
  try:
    if run is not None:
      return language_model.load_run_tokenizer(run[0])
    path = pretrained.resolve(name)
    return tokenizer_lib.load(path, pretrained.open_gguf(path))
  except WeightsError as error:
    if chosen:
      raise
    raise ConfigError(
        f'{url} has the tokenizer of {name!r}, which cannot be read here'
        f' ({error}); {way_out}.'
    ) from error
