"""Opens the policies that an evaluation names, each by its kind."""

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

import msgspec

from agentrl.config.evaluation import Evaluated
from agentrl.config.modes import Evaluate
from agentrl.errors import (
    ConfigError,
    EngineError,
    EngineRefusal,
    WeightsError,
)
from agentrl.evaluation import results
from agentrl.evaluation.results import PolicyRecord
from agentrl.inference import compatibility
from agentrl.inference.compatibility import Needs
from agentrl.inference.sampler import Policy, Sampler
from agentrl.rollout import environment as environment_lib
from agentrl.rollout.agent import make_agent
from agentrl.rollout.collect import Play
from agentrl.rollout.environment import Environment
from agentrl.rollout.options import Limits
from agentrl.runtime import workdir as workdir_lib
from agentrl.runtime.event_loop import EventLoop
from agentrl.serving import remote, start as serving_lib
from agentrl.serving.options import SamplerOptions
from agentrl.text import chat, tokenizer as tokenizer_lib
from agentrl.text.tokenizer import Tokenizer
from agentrl.training import language_model
from agentrl.weights import fingerprint, pretrained

WITHOUT_TOKENS = ('expert',)  # kinds whose words no tokenizer of a model makes
_RECORD = 'policy.json'
# The expert's actions are as long as they are: no limit cuts them.
_UNBOUNDED = 1 << 20


@dataclasses.dataclass(frozen=True)
class OpenPolicy:
  """A policy that can play.

  Attributes:
    record: for the results.
    make_play: `make_play(environment, config)` gives what plays an episode in
      an environment, under the config of that panel.
  """

  record: PolicyRecord
  make_play: Callable[[Environment, Evaluate], Play]


@dataclasses.dataclass(frozen=True)
class Opening:
  """Values that open a policy.

  Attributes:
    evaluated: which policy, and its configs.
    stack: closes it.
    loop: runs coroutines.
    directory: the workdir, for logs of servers.
  """

  evaluated: Evaluated
  stack: contextlib.ExitStack
  loop: EventLoop
  directory: pathlib.Path

  @property
  def config(self) -> Evaluate:
    """The config of the first panel; the policy is the same on all."""
    return self.evaluated.configs[0]

  @property
  def record_path(self) -> pathlib.Path:
    """The file with the record of a policy that has been opened."""
    name = self.evaluated.name
    return results.episodes_path(self.directory, name, 'x').parent / _RECORD

  @property
  def has_episodes(self) -> bool:
    """True if an earlier process has played some."""
    files = self.record_path.parent.glob('*.jsonl')
    return any(file.stat().st_size for file in files)

  def record(self, **fields: Any) -> PolicyRecord:
    """The record of this policy, with these fields besides its name."""
    found = self.evaluated
    return PolicyRecord(
        name=found.name, kind=found.kind, source=found.source, **fields
    )


def open_policy(opening: Opening) -> OpenPolicy:
  """Loads weights, starts or finds servers, whatever the policy needs.

  Raises:
    ConfigError: the workdir has episodes of other weights or settings.
    AgentrlError: it cannot be opened.
    Interrupted: the user asked to stop.
  """
  found = _KINDS[opening.evaluated.kind](opening)
  before = _read_record(opening)
  if before not in (None, found.record) and opening.has_episodes:
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(found.record)
    changed = [
        f'{x}={old[x]!r} (now {new[x]!r})' for x in old if old[x] != new[x]
    ]
    raise ConfigError(
        f'{opening.directory} has episodes of {found.record.name} with'
        f' {", ".join(changed)}; use another --workdir.'
    )
  opening.record_path.parent.mkdir(parents=True, exist_ok=True)
  opening.record_path.write_bytes(msgspec.json.encode(found.record) + b'\n')
  return found


def record_of(
    opening: Opening, opened: Callable[[], OpenPolicy]
) -> PolicyRecord:
  """The record of a policy that has played, now or in an earlier process."""
  return _read_record(opening) or opened().record


def _read_record(opening: Opening) -> PolicyRecord | None:
  """The record that is kept beside the policy's episodes; None: there is none."""
  try:
    data = opening.record_path.read_bytes()
    return msgspec.json.decode(data, type=PolicyRecord)
  except (OSError, ValueError):  # a kill left half of it
    return None


def _open_model(opening: Opening) -> OpenPolicy:
  """A policy whose weights are loaded here, and sampled as the config says."""
  config = opening.config
  model, version = language_model.load_policy(config.model.name)
  number = int(version) if version.isdecimal() else 0
  serving = serving_lib.start_serving(
      opening.stack,
      opening.loop,
      serving_lib.ServedPolicy(
          model=model,
          version=number,
          dtype=config.model.dtype,
          max_context=config.rollout.max_context,
          seed=config.eval.seed,
          chat_template=config.agent.template,
      ),
      config.sampler,
      opening.directory,
  )
  return _talking(
      opening,
      model.tokenizer,
      serving.make_sampler(temperature=config.eval.temperature),
      number,
      weight_version=version,
      fingerprint=fingerprint.of_params(model.params),
      served={'samples': config.sampler.kind, 'dtype': config.model.dtype},
  )


def _open_server(opening: Opening) -> OpenPolicy:
  """A policy that an SGLang server has; its weights stay there."""
  config, loop, url = opening.config, opening.loop, opening.evaluated.source
  sampler = dataclasses.replace(config.sampler, kind='sglang', urls=(url,))
  keys = remote.read_keys(sampler)
  make = functools.partial(
      Sampler,
      loop.session,
      [url],
      temperature=config.eval.temperature,
      timeout_s=sampler.timeout_s,
      max_attempts=sampler.max_attempts,
      api_key=keys.api,
      admin_key=keys.admin,
  )
  client = make()
  info = loop.run(_describe(client, sampler))
  compatibility.check(url, info, Needs(config.rollout.max_context, 0, None))
  tokenizer = _tokenizer_of(url, info, config.model.tokenizer)
  if not loop.run(client.knows(tokenizer.vocab_size - 1)):
    raise EngineRefusal(
        f'{url} does not know the id {tokenizer.vocab_size - 1} of its'
        ' tokenizer: name the right one in model.tokenizer.'
    )
  version = str(info.get('weight_version', 'default'))
  return _talking(
      opening,
      tokenizer,
      make(vocab_size=tokenizer.vocab_size),
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


def _open_expert(opening: Opening) -> OpenPolicy:
  """The environment's own expert. Its words pass through bytes, as no model is."""
  tokenizer = tokenizer_lib.train_bpe([], 256 + 3)

  def make_play(environment: Environment, config: Evaluate) -> Play:
    limits = dataclasses.replace(
        config.rollout,
        max_completion_tokens=_UNBOUNDED - 1,
        max_context=_UNBOUNDED,
    )
    return _make_play(environment, config, tokenizer, None, limits, 0)

  return OpenPolicy(opening.record(), make_play)


_KINDS = {
    'model': _open_model,
    'server': _open_server,
    'expert': _open_expert,
}


def _talking(
    opening: Opening,
    tokenizer: Tokenizer,
    sampler: Policy,
    number: int,
    *,
    served: dict[str, Any],
    **weights: str,
) -> OpenPolicy:
  """A policy that continues transcripts.

  Args:
    opening: which.
    tokenizer: of it.
    sampler: samples from it.
    number: its version, for the records of episodes.
    served: settings of the server, for the record.
    **weights: of the record.
  """
  config = opening.config
  record = opening.record(
      template=_template(tokenizer, config.agent.template),
      sampler={
          **served,
          'temperature': config.eval.temperature,
          'max_completion_tokens': config.rollout.max_completion_tokens,
          'max_context': config.rollout.max_context,
          'format': config.agent.format,
          'instructions': config.agent.instructions,
      },
      **weights,
  )

  def make_play(environment: Environment, config: Evaluate) -> Play:
    return _make_play(
        environment, config, tokenizer, sampler, config.rollout, number
    )

  return OpenPolicy(record, make_play)


def _make_play(
    environment: Environment,
    config: Evaluate,
    tokenizer: Tokenizer,
    policy: Policy | None,
    limits: Limits,
    number: int,
) -> Play:
  return environment_lib.make_play(
      environment,
      make_agent(environment.spec, tokenizer, config.agent),
      policy,
      limits,
      name='eval',
      split=config.eval.split,
      horizon=config.eval.horizon,
      policy_version=number,
  )


def _template(tokenizer: Tokenizer, chosen: str | None) -> str:
  """The name of the chat template, or the hash of the tokenizer's own."""
  source = chat.ChatFormat(tokenizer, chosen).source
  names = [name for name, text in chat.TEMPLATES.items() if text == source]
  digest = hashlib.sha256(source.encode()).hexdigest()
  return names[0] if names else f"the tokenizer's, SHA-256 {digest}"


def _tokenizer_of(
    url: str, info: dict[str, Any], chosen: str | None
) -> Tokenizer:
  """The tokenizer of a server: the chosen one, or the one that it names.

  Raises:
    ConfigError: it names none, or one that is not here.
  """
  said = info.get('tokenizer_path') or info.get('model_path')
  name = chosen or said
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
