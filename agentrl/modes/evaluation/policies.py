"""Opens the policies that an evaluation names, each by its kind."""

from collections.abc import Callable

import msgspec

from agentrl.config.evaluation import EXPERT, MODEL, RANDOM
from agentrl.errors import ConfigError
from agentrl.evaluation.results import PolicyRecord
from agentrl.inference.chat import ChatClient
from agentrl.inference.options import API
from agentrl.modes.evaluation import opening as opening_lib, served
from agentrl.modes.evaluation.opening import Opening, OpenPolicy
from agentrl.rollout.expert import Expert
from agentrl.rollout.random_policy import RandomPolicy
from agentrl.serving import start as serving_lib
from agentrl.training import language_model
from agentrl.weights import fingerprint


def open_policy(opening: Opening) -> OpenPolicy:
  """Loads weights, starts or finds servers, whatever the policy needs.

  Raises:
    ConfigError: the workdir has episodes of other weights or settings.
    AgentrlError: it cannot be opened.
    Interrupted: the user asked to stop.
  """
  policy = _KINDS[opening.evaluated.kind](opening)
  before = _read_record(opening)
  if before not in (None, policy.record) and opening.has_episodes:
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(policy.record)
    changed = [
        f'{x}={old[x]!r} (now {new[x]!r})' for x in old if old[x] != new[x]
    ]
    raise ConfigError(
        f'{opening.directory} has episodes of {policy.record.name} with'
        f' {", ".join(changed)}; use another --workdir.'
    )
  opening.record_path.parent.mkdir(parents=True, exist_ok=True)
  opening.record_path.write_bytes(msgspec.json.encode(policy.record) + b'\n')
  return policy


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
          chat_date=config.agent.date,
          episodes=config.rollout.concurrency,
      ),
      config.sampler,
      opening.directory,
  )
  return opening_lib.talking(
      opening,
      model.tokenizer,
      serving.make_sampler(temperature=config.eval.temperature),
      number,
      weight_version=version,
      fingerprint=fingerprint.of_params(model.params),
      served={'samples': config.sampler.kind, 'dtype': config.model.dtype},
  )


def _open_api(opening: Opening) -> OpenPolicy:
  """A model behind an OpenAI-compatible endpoint, asked once to see that it is."""
  config, loop = opening.config, opening.loop
  client = ChatClient(loop.session, config.api)
  limit = config.rollout.max_completion_tokens
  loop.run(client.check(limit))
  record = opening.record(
      weight_version=config.api.model,
      sampler={
          'url': config.api.url,
          'temperature': config.api.temperature,
          'max_completion_tokens': limit,
          'format': config.agent.format,
          'instructions': config.agent.instructions,
          'extra': config.api.extra,
      },
  )
  return opening_lib.writing(record, client, has_system=config.api.system_role)


def _open_expert(opening: Opening) -> OpenPolicy:
  """The environment's own expert, whose words need no tokenizer."""
  return opening_lib.writing(opening.record(), None, acting=Expert)


def _open_random(opening: Opening) -> OpenPolicy:
  """A policy that draws actions, the floor of a table."""
  return opening_lib.writing(opening.record(), None, acting=RandomPolicy)


_KINDS = {
    MODEL: _open_model,
    'server': served.open_server,
    API: _open_api,
    EXPERT: _open_expert,
    RANDOM: _open_random,
}
