"""What a config may say of who samples: `config.sampler`."""

import dataclasses
import itertools
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.errors import ConfigError
from agentrl.modes.reading import above, at_least, idle, one_of, read
from agentrl.training.disk_push import MODES
from agentrl.weights import hf

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


@dataclasses.dataclass(frozen=True)
class Launch:
  """SGLang servers that the run starts, watches, starts again and stops.

  They listen on loopback, and log into `servers/` of the workdir.
  """

  python: str | None = None  # of the servers' own virtual environment
  module: str = 'sglang.launch_server'  # what `python -m` runs
  # More of its command line: words, or a dict like {'tp_size': 2}.
  flags: Sequence[str] | Mapping[str, Any] = ()
  replicas: int = 1
  # CUDA_VISIBLE_DEVICES of each replica, as in ('1', '2') or ('2,3', '4,5');
  # empty: what the run itself sees.
  devices: tuple[str, ...] = ()
  port: int = 0  # of the first replica, the next one's follows; 0: free ones
  start_timeout_s: float = 900.0  # until /health says yes
  restarts: int = 5  # of one replica, in the whole run
  backoff_s: float = 1.0  # before the first restart; doubles with each

  def __post_init__(self):
    at_least('sampler.launch.replicas', self.replicas, 1)
    at_least('sampler.launch.restarts', self.restarts, 0)
    above('sampler.launch.start_timeout_s', self.start_timeout_s, 0)
    at_least('sampler.launch.backoff_s', self.backoff_s, 0)
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
    found = None
    following = itertools.chain(self.words[1:], (None,))
    for word, after in zip(self.words, following, strict=False):
      name, _, value = word.partition('=')
      if name == flag:
        found = value or after
    return found

  @property
  def words(self) -> tuple[str, ...]:
    """`flags` as words of a command line."""
    if isinstance(self.flags, str):
      raise ConfigError(
          f'sampler.launch.flags={self.flags!r} is one string; give words, as'
          " in ('--tp-size', '2'), or a dict."
      )
    if not isinstance(self.flags, Mapping):
      return tuple(map(str, self.flags))
    words = []
    for name, value in self.flags.items():
      if value is None or value is False:
        continue
      words.append(f'--{name.replace("_", "-")}')
      if value is not True:
        values = value if isinstance(value, (list, tuple)) else (value,)
        words += map(str, values)
    return tuple(words)


@dataclasses.dataclass(frozen=True)
class Sampler:
  """Who samples: the embedded engine or SGLang servers."""

  kind: str = 'embedded'  # 'embedded' | 'sglang'
  # One of these three says where the SGLang servers are.
  urls: tuple[str, ...] = ()  # servers that run
  router: str | None = None  # an SGLang router, which lists its workers
  launch: Any = None  # a section: see `Launch`; without `python`: none
  # A folder that trainer and servers share; None: on one host /dev/shm.
  push_dir: str | None = None
  # What a push does to requests under way. 'retract': they go on under the new
  # weights, their cache computed anew; 'in_place': with the old cache; 'abort':
  # they are asked again; 'drain': the push waits for them.
  push: str = 'retract'
  # Whether a run with model.lora pushes the adapter alone, which requests then
  # ask for by name; False: the whole model, the adapter merged into it.
  push_lora: bool = False
  verify: bool = True  # read weights back after each push and compare
  shard_bytes: int = hf.SHARD_BYTES  # of a pushed file
  # Files of one line: the servers' key, and their admin key if they have one,
  # for the routes that change something. None: what the environment variables
  # of `host.SECRETS` hold, if anything.
  api_key_file: str | None = None
  admin_key_file: str | None = None
  # Refused: a config is written into the workdir and shown by the process list.
  api_key: None = dataclasses.field(default=None, repr=False)
  admin_key: None = dataclasses.field(default=None, repr=False)
  max_running: int = 64  # embedded: sequences that decode together
  slots: int = 0  # embedded: cached sequences; 0: twice max_running
  # embedded: the same requests give the same tokens and log-probabilities to
  # the last bit, whatever is served beside them; each costs what a full batch
  # does.
  deterministic: bool = False
  timeout_s: float = 300.0  # of one request
  max_attempts: int = 4  # of one request

  def __post_init__(self):
    one_of('sampler.kind', self.kind, ('embedded', 'sglang'))
    one_of('sampler.push', self.push, MODES)
    at_least('sampler.max_running', self.max_running, 1)
    at_least('sampler.max_attempts', self.max_attempts, 1)
    at_least('sampler.shard_bytes', self.shard_bytes, 1)
    above('sampler.timeout_s', self.timeout_s, 0)
    for name in ('api_key', 'admin_key'):
      if getattr(self, name) is not None:  # its value is shown nowhere
        raise ConfigError(
            f'sampler.{name} would stand in config.json and in the process'
            ' list: put the key into a file that only you can read and name it'
            f' in sampler.{name}_file, or set'
            f' AGENTRL_SAMPLER_{name.upper()}.'
        )
    object.__setattr__(self, 'launch', _read_launch(self.launch))
    if self.kind == 'embedded':
      self._check_embedded()
    else:
      self._check_sglang()

  def _check_embedded(self) -> None:
    if self.slots and self.slots < self.max_running:
      raise ConfigError(
          f'sampler.slots={self.slots} are fewer than sampler.max_running='
          f'{self.max_running} sequences.'
      )
    idle(
        self,
        'sampler',
        (
            *('urls', 'router', 'launch', 'push_dir'),
            *('push', 'push_lora', 'verify', 'shard_bytes'),
            *('api_key_file', 'admin_key_file'),
        ),
        "it is about servers; set sampler.kind='sglang'",
    )

  def _check_sglang(self) -> None:
    given = [n for n in ('urls', 'router', 'launch') if getattr(self, n)]
    if len(given) != 1:
      raise ConfigError(
          "sampler.kind='sglang' needs one of sampler.urls (servers that run),"
          ' sampler.router and sampler.launch.python (servers that the run'
          f' starts); got {" and ".join(given) or "none"}.'
      )
    _check_urls(self.urls, self.router)
    idle(self, 'sampler', ('slots',), "sampler.kind='sglang' has its own cache")
    idle(
        self,
        'sampler',
        ('deterministic',),
        'an SGLang server is told by --enable-deterministic-inference',
    )
    if self.launch:
      names = ('api_key_file', 'admin_key_file')
      idle(self, 'sampler', names, 'servers of the run listen on loopback only')
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

  @property
  def num_slots(self) -> int:
    """Sequences that the embedded engine keeps in its cache."""
    return self.slots or 2 * self.max_running

  @property
  def local(self) -> bool:
    """Whether all servers are known to be on this host."""
    urls = (self.router,) if self.router else self.urls
    hosts = [urllib.parse.urlsplit(url).hostname for url in urls]
    # A router may be here and its workers elsewhere.
    return not self.router and all(host in _LOOPBACK for host in hosts)


def _check_urls(urls: Sequence[str], router: str | None) -> None:
  if isinstance(urls, str):
    raise ConfigError(
        f'sampler.urls={urls!r} is one string; give a list, as in'
        f" ('{urls}',)."
    )
  named = [('sampler.urls', url) for url in urls]
  named += [('sampler.router', router)] if router else []
  for name, url in named:
    try:
      parts = urllib.parse.urlsplit(url)
      usable = parts.scheme in ('http', 'https') and parts.hostname
      usable = usable and parts.port != 0
    except ValueError:  # a port that is none
      usable = False
    if not usable:
      raise ConfigError(f'{name} has {url!r}; a URL is like http://host:30000.')


def _read_launch(section: Any) -> Launch | None:
  if section is None or isinstance(section, Launch):
    return section
  launch = read(Launch, section, 'sampler.launch')
  if launch.python:
    return launch
  idle(
      launch,
      'sampler.launch',
      [f.name for f in dataclasses.fields(Launch)],
      'nothing is launched without sampler.launch.python',
  )
  return None
