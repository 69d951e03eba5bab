"""Opens the policies that an evaluation names, each by its kind."""

import dataclasses
from collections.abc import Callable

import msgspec

from agentrl.config.modes import Evaluate
from agentrl.errors import ConfigError
from agentrl.evaluation.results import PolicyRecord
from agentrl.modes import opening as opening_lib, served
from agentrl.modes.opening import Opening, OpenPolicy
from agentrl.rollout.collect import Play
from agentrl.rollout.environment import Environment
from agentrl.serving import start as serving_lib
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import language_model
from agentrl.weights import fingerprint

WITHOUT_TOKENS = ('expert',)  # kinds whose words no tokenizer of a model makes
# The expert's actions are as long as they are: no limit cuts them.
_UNBOUNDED = 1 << 20


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
  return opening_lib.talking(
      opening,
      model.tokenizer,
      serving.make_sampler(temperature=config.eval.temperature),
      number,
      weight_version=version,
      fingerprint=fingerprint.of_params(model.params),
      served={'samples': config.sampler.kind, 'dtype': config.model.dtype},
  )


def _open_expert(opening: Opening) -> OpenPolicy:
  """The environment's own expert. Its words pass through bytes, as no model is."""
  tokenizer = tokenizer_lib.train_bpe([], 256 + 3)

  def make_play(environment: Environment, config: Evaluate) -> Play:
    limits = dataclasses.replace(
        config.rollout,
        max_completion_tokens=_UNBOUNDED - 1,
        max_context=_UNBOUNDED,
    )
    return opening_lib.play_of(environment, config, tokenizer, None, limits, 0)

  return OpenPolicy(opening.record(), make_play)


_KINDS = {
    'model': _open_model,
    'server': served.open_server,
    'expert': _open_expert,
}
