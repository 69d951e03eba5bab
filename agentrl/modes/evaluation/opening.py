"""The values that open a policy of an evaluation, and an open one."""

import contextlib
import dataclasses
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

from agentrl.config.evaluation import Evaluated
from agentrl.config.modes import Evaluate
from agentrl.evaluation import results
from agentrl.evaluation.results import PolicyRecord
from agentrl.inference.chat import ChatPolicy
from agentrl.inference.sampler import Policy
from agentrl.rollout import play as play_lib
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.agent import make_agent
from agentrl.rollout.collect import Play
from agentrl.rollout.dialogue import AnyCompletion
from agentrl.rollout.environment import Environment
from agentrl.rollout.expert import Expert
from agentrl.rollout.text_agent import AnyPolicy, BaseAgent, make_text_agent
from agentrl.runtime.event_loop import EventLoop
from agentrl.text import chat
from agentrl.text.tokenizer import Tokenizer

_RECORD = 'policy.json'


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
    policy = self.evaluated
    return PolicyRecord(
        name=policy.name, kind=policy.kind, source=policy.source, **fields
    )


def talking(
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
    agent = make_agent(environment.spec, tokenizer, config.agent)
    return _make_play(environment, config, agent, sampler, number=number)

  return OpenPolicy(record, make_play)


def writing(
    record: PolicyRecord,
    policy: ChatPolicy | None,
    *,
    acting: type[ActingPolicy] = Expert,
    has_system: bool = True,
) -> OpenPolicy:
  """A policy that writes messages; its episodes have no tokens.

  Args:
    record: of it.
    policy: continues the messages; None: `acting` does.
    acting: see `play.make_play`.
    has_system: whether the policy takes a system message.
  """

  def make_play(environment: Environment, config: Evaluate) -> Play:
    # A template is for the models of the same evaluation.
    options = dataclasses.replace(config.agent, template=None)
    agent = make_text_agent(environment.spec, options, has_system=has_system)
    return _make_play(environment, config, agent, policy, acting=acting)

  return OpenPolicy(record, make_play)


def _make_play(
    environment: Environment,
    config: Evaluate,
    agent: BaseAgent[AnyPolicy, AnyCompletion],
    policy: AnyPolicy | None,
    *,
    acting: type[ActingPolicy] = Expert,
    number: int = 0,
) -> Play:
  return play_lib.make_play(
      environment,
      agent,
      policy,
      config.rollout,
      acting=acting,
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
