"""Sections of a config about who samples and what is served; imports no jax."""

import dataclasses
import itertools
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.errors import ConfigError
from agentrl.fields import (
    ActsIf,
    check_day,
    field,
    section,
    unless_set,
    when,
    when_set,
)

# What a push does to requests under way, see `weight_sync.disk`.
PUSHES = ('retract', 'drain', 'abort', 'in_place')
SHARD_BYTES = 10**9  # of a pushed file
_URL = 'http://127.0.0.1:1'
# What the run itself tells a server that it starts -> what to do instead.
_OWN_FLAGS = {
    '--model-path': 'leave it out',
    '--model': 'leave it out',
    '--host': 'leave it out',
    '--port': 'set sampler.launch.port',
    '--api-key': 'leave it out, as it listens on loopback only',
    '--admin-api-key': 'leave it out, as it listens on loopback only',
    '--weight-version': 'leave it out',
}
# What servers call the types that they compute in.
SERVER_DTYPES = {
    'float32': 'float32',
    'float': 'float32',
    'bfloat16': 'bfloat16',
    'float16': 'float16',
    'half': 'float16',
}
_LOOPBACK = ('127.0.0.1', 'localhost', '::1')

_SGLANG = when('sampler.kind', 'sglang')
_LAUNCHED = when_set(
    'sampler.launch.python',
    'python',
    'nothing is launched without sampler.launch.python',
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
  """SGLang servers that the run starts, watches, starts again and stops.

  They listen on loopback, and log into `servers/` of the workdir.
  """

  python: str | None = field(
      None,
      "Python of the servers' environment; None: no launch",
      acts_if=_SGLANG,
  )
  module: str = field(
      'sglang.launch_server', 'module that `python -m` runs', acts_if=_LAUNCHED
  )
  flags: tuple[str, ...] | dict[str, Any] = field(
      (),
      "further flags of a server: words, or a dict like {'tp_size': 2}",
      acts_if=_LAUNCHED,
      example=('--tp-size', '2'),
  )
  replicas: int = field(1, 'servers', ge=1, acts_if=_LAUNCHED)
  devices: tuple[str, ...] = field(
      (),
      "CUDA_VISIBLE_DEVICES of each server; (): the run's own",
      acts_if=_LAUNCHED,
      example=('1',),
  )
  # The next replicas' follow.
  port: int = field(
      0, 'port of the first server; 0: free ones', ge=0, acts_if=_LAUNCHED
  )
  start_timeout_s: float = field(
      900.0, 'seconds until a server is ready, at most', gt=0, acts_if=_LAUNCHED
  )
  restarts: int = field(
      5, 'restarts of a server in a run, at most', ge=0, acts_if=_LAUNCHED
  )
  backoff_s: float = field(
      1.0,
      'seconds before the first restart; doubles with each',
      ge=0,
      acts_if=_LAUNCHED,
  )

  def check(self) -> None:
    if not 0 <= self.port <= 65536 - self.replicas:
      raise ConfigError(
          f'sampler.launch.port={self.port} is no port for each of'
          f' {self.replicas} replicas; use 0 for free ones.'
      )
    if self.devices and len(self.devices) != self.replicas:
      raise ConfigError(
          f'sampler.launch.devices has {len(self.devices)} entries for'
          f' {self.replicas} replicas; give each one its own, as in'
          " devices=('1', '2') with replicas=2."
      )
    for word in self.words:
      flag = word.partition('=')[0]
      instead = _OWN_FLAGS.get(flag)
      if instead is not None:  # without its value, which may be a key
        raise ConfigError(
            f'sampler.launch.flags has {flag!r}, which the run sets itself;'
            f' {instead}.'
        )

  def value_of(self, flag: str) -> str | None:
    """The last value of one flag in `flags`; None if it is not there."""
    last = None
    following = itertools.chain(self.words[1:], (None,))
    for word, after in zip(self.words, following, strict=False):
      name, _, value = word.partition('=')
      if name == flag:
        last = value or after
    return last

  @property
  def tensor_parallel(self) -> int:
    """Devices of one server; 1 where its flag is no number above 0."""
    text = self.value_of('--tp-size') or self.value_of('--tp')
    return int(text) if text and text.isdecimal() and int(text) else 1

  @property
  def words(self) -> tuple[str, ...]:
    """`flags` as words of a command line."""
    if not isinstance(self.flags, Mapping):
      return self.flags
    words = []
    for name, value in self.flags.items():
      if value is None or value is False:
        continue
      words.append(f'--{name.replace("_", "-")}')
      if value is not True:
        values = value if isinstance(value, (list, tuple)) else (value,)
        words += map(str, values)
    return tuple(words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddedOptions:
  """The embedded engine."""

  max_running: int = field(64, 'sequences that decode together', ge=1)
  slots: int = field(
      0,
      'cached sequences; 0: a quarter more than episodes at a time, at most'
      ' twice max_running',
      ge=0,
      example=128,
  )
  # To the last bit, whatever is served beside them; each costs a full batch. How
  # much of a prompt was cached depends on who came when, so turns have no
  # `cached_tokens` then and metrics no `rollout/cached_share`.
  deterministic: bool = field(
      False, 'equal requests give equal results, to the last bit'
  )

  def num_slots(self, episodes: int | None = None) -> int:
    """Sequences that the embedded engine keeps in its cache.

    Args:
      episodes: that go on at a time. Those that have ended leave their slots
        later than others need one, so that there are some more. None: unknown.
    """
    if self.slots or episodes is None:
      return self.slots or 2 * self.max_running
    running = self.num_running(episodes)
    return min(max(running, episodes + episodes // 4), 2 * running)

  def num_running(self, episodes: int | None = None) -> int:
    """Sequences that decode together: each of so many episodes has one.

    A deterministic engine has full batches whoever asks.
    """
    if episodes is None or self.deterministic:
      return self.max_running
    return min(self.max_running, episodes)

  def check(self) -> None:
    if self.slots and self.slots < self.max_running:
      raise ConfigError(
          f'sampler.slots={self.slots} are fewer than sampler.max_running='
          f'{self.max_running} sequences.'
      )


_SERVERS = ActsIf(
    lambda config: config.sampler.kind == 'sglang',
    {'sampler.kind': 'sglang', 'sampler.urls': (_URL,)},
    "it is about servers; set sampler.kind='sglang'",
)
_EMBEDDED = when('sampler.kind', 'embedded')
_NO_FLAG = when(
    'sampler.kind',
    'embedded',
    reason=(
        f'{_EMBEDDED.reason}, and SGLang servers have a flag for it,'
        ' --enable-deterministic-inference'
    ),
)
_FOUND = unless_set(
    'sampler.launch.python', None, 'servers of the run listen on loopback only'
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplerOptions(EmbeddedOptions):
  """The sampler: the embedded engine, or SGLang servers."""

  kind: str = field('embedded', 'who samples', one_of=('embedded', 'sglang'))
  slots: int = field(
      0,
      'cached sequences; 0: twice max_running',
      ge=0,
      acts_if=_EMBEDDED,
      example=128,
  )
  deterministic: bool = field(
      False,
      'equal requests give equal results, to the last bit',
      acts_if=_NO_FLAG,
  )
  # One of these three says where the SGLang servers are.
  urls: tuple[str, ...] = field(
      (), 'SGLang servers that run already', acts_if=_SERVERS, example=(_URL,)
  )
  router: str | None = field(
      None,
      'SGLang router, which lists its workers',
      acts_if=_SERVERS,
      example=_URL,
  )
  launch: Launch = section(Launch)
  push_dir: str | None = field(
      None,
      'folder that trainer and servers share; None: /dev/shm',
      acts_if=_SERVERS,
  )
  # 'retract': they go on under the new weights, their cache computed anew;
  # 'in_place': with the old cache; 'abort': they are asked again; 'drain': the
  # push waits for them.
  push: str = field(
      'retract',
      'what a push does to requests under way',
      one_of=PUSHES,
      acts_if=_SERVERS,
  )
  verify: bool = field(
      True, 'read weights back after each push', acts_if=_SERVERS
  )
  shard_bytes: int = field(
      SHARD_BYTES, 'bytes of a pushed file, at most', ge=1, acts_if=_SERVERS
  )
  # Files of one line. None: what the environment variables
  # AGENTRL_SAMPLER_API_KEY and AGENTRL_SAMPLER_ADMIN_KEY hold, if anything.
  api_key_file: str | None = field(
      None, "file with the servers' key", acts_if=(_SERVERS, _FOUND)
  )
  admin_key_file: str | None = field(
      None,
      "file with the servers' admin key, if they have one",
      acts_if=(_SERVERS, _FOUND),
  )
  timeout_s: float = field(300.0, 'seconds until a request has failed', gt=0)
  max_attempts: int = field(4, 'tries of a request', ge=1)

  @property
  def push_lora(self) -> bool:
    """False: a merged model is pushed."""
    return False

  @property
  def local(self) -> bool:
    """True if all servers are known to be on this host."""
    urls = (self.router,) if self.router else self.urls
    hosts = [urllib.parse.urlsplit(url).hostname for url in urls]
    # A router may be here and its workers elsewhere.
    return not self.router and all(host in _LOOPBACK for host in hosts)

  def check(self) -> None:
    if self.kind == 'embedded':
      super().check()
      return
    ways = dict(urls=self.urls, router=self.router, launch=self.launch.python)
    choices = [name for name, value in ways.items() if value]
    if len(choices) != 1:
      raise ConfigError(
          "sampler.kind='sglang' needs one of sampler.urls (servers that run),"
          ' sampler.router and sampler.launch.python (servers that the run'
          f' starts); got {" and ".join(choices) or "none"}.'
      )
    _check_urls(self.urls, self.router)
    if not self.push_dir and not self.local:
      raise ConfigError(
          'sampler.push_dir is missing: servers on other hosts read the weights'
          ' from a folder that they share with the trainer. Name one.'
      )
    if self.push == 'abort' and self.max_attempts == 1:
      raise ConfigError(
          "sampler.push='abort' ends requests to have them asked again, but"
          ' sampler.max_attempts=1 forbids that; use at least 2.'
      )


_RANK = when_set('model.lora.rank', 8, 'model.lora.rank=0 has no adapter')


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainSamplerOptions(SamplerOptions):
  """The sampler of a policy that is trained."""

  # Another than the trainer's gives log-probabilities that differ from its own, as
  # servers of low precision do: see algo.importance_cap.
  dtype: str | None = field(
      None,
      'type that the engine computes in; None: model.dtype',
      one_of=('float32', 'bfloat16'),
      acts_if=_EMBEDDED,
  )
  # Requests then ask for it by name; False: merged into the whole model.
  push_lora: bool = field(
      False,
      'push the adapter alone, not merged into its base',
      acts_if=(_SERVERS, _RANK),
  )


def _check_urls(urls: Sequence[str], router: str | None) -> None:
  named = [('sampler.urls', url) for url in urls]
  named += [('sampler.router', router)] if router else []
  for name, url in named:
    try:
      parts = urllib.parse.urlsplit(url)
      usable = (
          parts.scheme in ('http', 'https')
          and bool(parts.hostname)
          and parts.port != 0
      )
    except ValueError:  # a port that is none
      usable = False
    if not usable:
      raise ConfigError(f'{name} has {url!r}; a URL is like http://host:30000.')


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyServer:
  """The standalone engine."""

  host: str = field('127.0.0.1', 'address to listen on')
  port: int = field(30000, 'port to listen on; 0: a free one', ge=0, le=65535)
  name: str | None = field(
      None, "model id for OpenAI's clients; None: model.name"
  )
  # A run's own; memory for it is taken at the start.
  max_context: int = field(
      2048, "tokens of a request, at most; 0: the model's", ge=0
  )
  seed: int = field(0, 'seed of requests that bring none')
  # `Authorization: Bearer KEY` opens all routes but health and metrics; with
  # an admin key, that alone opens routes that change something.
  api_key_file: str | None = field(None, 'file with the key of all routes')
  admin_api_key_file: str | None = field(
      None, 'file with the key of control routes'
  )
  chat_template: str | None = field(
      None,
      "chat template; None: the run's, or the tokenizer's",
      example='chatml',
  )
  chat_date: str | None = field(
      None,
      "day that it is told, YYYY-MM-DD; None: the run's, or today",
      example='2026-01-31',
  )
  # Else the first request of each kind waits.
  warmup: bool = field(True, 'compile before /health says ready')

  def check(self) -> None:
    check_day('serve.chat_date', self.chat_date)
