"""Sections of a config about the environment; imports no jax."""

import dataclasses
from typing import Any

from agentrl import envs
from agentrl.envs import ENVS
from agentrl.fields import field, unless_set, when_set

_URL = 'http://127.0.0.1:1'
_SERVED = when_set(
    'env.url',
    _URL,
    'a child of the run is started again, and listens on loopback only; it acts'
    ' with env.url',
)
_CHILD = unless_set(
    'env.url',
    None,
    'env.url names servers that run; start more of them and list their URLs',
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnvName:
  """One environment."""

  name: str = field(
      next(iter(ENVS)), f'one of {", ".join(ENVS)}, or module:NAME'
  )
  # None in a config: the environment's own default, see `envs.ENVS`.
  options: dict[str, Any] = field({}, "the environment's options")

  @property
  def urls(self) -> tuple[str, ...]:
    """URLs of its servers; none: it is started here."""
    return ()

  def check(self) -> None:
    # One of your own is imported by the server, after all else was checked.
    if ':' not in self.name:
      envs.get(self.name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnvOptions(EnvName):
  """An environment and its servers."""

  url: str | tuple[str, ...] | None = field(
      None,
      'URL of the server, or several; None: the run starts one',
      example=_URL,
  )
  timeout_s: float = field(60.0, 'seconds until a request has failed', gt=0)
  # A server that was away (a restart, say); episodes wait for it within their
  # `rollout.deadline_s`. A child that died is started again.
  retry_s: float = field(
      60.0,
      'seconds that a server which has answered may be away',
      ge=0,
      acts_if=_SERVED,
  )
  workers: int = field(
      1, 'processes of the server that the run starts', ge=1, acts_if=_CHILD
  )
  token_file: str | None = field(
      None, "file with the server's bearer token", acts_if=_SERVED
  )

  @property
  def urls(self) -> tuple[str, ...]:
    if not self.url:
      return ()
    return (self.url,) if isinstance(self.url, str) else self.url


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainEnvOptions(EnvOptions):
  """An environment that is trained in."""

  task_file: str | None = field(
      None, 'AgentGym item file in place of the train list'
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnvServerOptions:
  """A server of one environment."""

  host: str = field('127.0.0.1', 'address to listen on')
  port: int = field(8000, 'port to listen on; 0: a free one', ge=0, le=65535)
  expert: bool = field(False, "offer the expert's actions")
  lease_s: float = field(
      600.0, 'seconds after which an unused episode is closed', gt=0
  )
  max_episodes: int = field(4096, 'live episodes, at most', ge=1)
  deadline_s: float = field(
      120.0, 'seconds after which a call ends its episode', gt=0
  )
  # More where the simulator is bound to them.
  workers: int = field(1, 'server processes', ge=1)
  # Runs name the same file in env.token_file.
  token_file: str | None = field(
      None, 'file with the bearer token of requests; None: none'
  )
