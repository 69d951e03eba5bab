"""Every field that a config may have is read, outside the config's own checks.

Each mode runs tiny, in this process, with a config that notes by its dotted path
which field is asked for (invariant 11: no field is without effect).
"""

import contextlib
import dataclasses
import http.server
import json
import os
import signal
import sys
import threading
import time
import urllib.request

import pytest

from agentrl import config as config_lib
from agentrl.config import resume
from agentrl.models import variants
from agentrl.models.options import Lora
from agentrl.modes import (
    agentevol,
    compare,
    doctor,
    dpo,
    evaluate,
    export,
    inspect,
    serve_env,
    serve_policy,
    sft,
    study,
    train,
    view,
)
from agentrl.rollout.env_server import EnvServer
from agentrl.serving import sglang
from agentrl.serving.options import Launch
from configs import quickstart
from tests.e2e import small
from tests.evaluation import recording

pytestmark = pytest.mark.slow
MODULES = dict(
    train=train,
    sft=sft,
    dpo=dpo,
    agentevol=agentevol,
    evaluate=evaluate,
    compare=compare,
    doctor=doctor,
    export=export,
    inspect=inspect,
    serve_env=serve_env,
    serve_policy=serve_policy,
    study=study,
    view=view,
)
# Copies, prints and comparisons ask for every field and use none.
_MACHINERY = ('dataclasses', 'copy', 'pickle')
_GENERATED = ('__eq__', '__hash__', '__repr__')


def uses(frame):
  """True where a field is asked for by itself.

  `**dataclasses.asdict(section)` in a mode is such a place, too: it hands each
  field on by its name.
  """
  code, name = frame.f_code.co_name, frame.f_globals['__name__']
  if name not in _MACHINERY:
    return code not in _GENERATED
  while frame.f_globals['__name__'] in _MACHINERY:
    frame = frame.f_back
  named = frame.f_globals['__name__'].startswith('agentrl.modes.')
  return named and code == '_asdict_inner'


def watched(value, prefix, seen):
  """The same dataclass, which adds the path of a field that is read to `seen`."""
  cls = type(value)
  names = {field.name for field in dataclasses.fields(cls)}

  def read(self, name):
    found = object.__getattribute__(self, name)
    if name in names and uses(sys._getframe(1)):
      seen.add(prefix + name)
    return found

  made = object.__new__(type(cls.__name__, (cls,), {'__getattribute__': read}))
  for name in names:
    inner = object.__getattribute__(value, name)
    if dataclasses.is_dataclass(inner):
      inner = watched(inner, f'{prefix}{name}.', seen)
    object.__setattr__(made, name, inner)
  return made


class Recorder:
  """Runs modes and keeps which of their fields were read."""

  def __init__(self, directory):
    self.directory = directory
    self.seen = {mode: set() for mode in MODULES}
    self._count = 0

  def run(self, config, workdir=None):
    """Runs a config to its end; returns the workdir, a new one by default."""
    mode, self._count = config.mode, self._count + 1
    workdir = workdir or self.directory / f'{mode}-{self._count}'
    read = config_lib.read
    note = lambda *args: watched(read(*args), '', self.seen[mode])
    with pytest.MonkeyPatch.context() as patch:
      patch.setattr(config_lib, 'read', note)
      patch.setattr(resume, 'read_config', note)
      MODULES[mode].run(config, str(workdir))
    return workdir


@contextlib.contextmanager
def interrupted_at(url):
  """Sends this process Ctrl-C as soon as `url` answers."""
  is_over = threading.Event()

  def wait():
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
      with contextlib.suppress(OSError):
        urllib.request.urlopen(url).close()
        break
      time.sleep(0.1)
    # What it raises in a callback of the garbage collector is lost.
    while not is_over.is_set():
      os.kill(os.getpid(), signal.SIGINT)
      is_over.wait(30)

  thread = threading.Thread(target=wait)
  thread.start()
  try:
    yield
  finally:
    is_over.set()
    thread.join()


def deliberating(context):
  """Plans, attempts and a context policy of an agent."""
  return dict(
      context=dict(kind=context),
      plan=dict(kind='every', every=1, tokens=4),
      reflect=dict(attempts=2, tokens=4),
  )


def tiny(mode):
  """A run of a mode that learns, from nothing and as small as it can be."""
  config = config_lib.defaults(mode)
  config.env = dict(
      name='babyai', options=dict(levels=('GoToRedBall',), style='compact')
  )
  config.agent = dict(
      format='plain', instructions='compact', **deliberating('fold')
  )
  config.model.name = 'tiny-1m'
  config.sampler.max_running = 4
  config.optim.max_tokens = 1  # pieces of one row: few shapes to compile
  config.rollout = dict(max_completion_tokens=8, max_context=512, concurrency=4)
  config.eval = dict(num_tasks=2, horizon=2)
  if mode == 'train':
    config.num_steps = 1
    config.rollout.update(tasks_per_step=1, group_size=2)
    config.horizon.turns = (2,)
  if mode in ('train', 'dpo'):
    config.warmstart = dict(episodes=4, minibatch_size=4, horizon=8)
  if mode in ('sft', 'agentevol'):
    config.data = dict(expert_episodes=8, expert_horizon=8)
  if mode in ('dpo', 'agentevol'):
    config.explore = dict(tasks=4, samples=2, horizon=2)
  if mode == 'dpo':
    config.pairs.with_expert = True
  if mode == 'agentevol':
    config.num_steps = 1
    config.algo.threshold = -1.0  # a random policy fails: learn from it anyway
  return config


def launched(url):
  """A sampler whose server the run starts; the one at `url` answers for it.

  What is read of a launch is the same for any server. A real one is started in
  e2e/sglang_test.py.
  """
  flags = ('--to', url.removeprefix('http://'), '--key', 'secret')
  launch = dict(
      python=sys.executable, module='tests.config.forwarding', flags=flags
  )
  return dict(kind='sglang', launch=launch)


def adapted(mode, model, url):
  """The same from a run, by an adapter, its server started by the run.

  Training is PPO's.
  """
  config = tiny(mode)
  config.model = dict(name=str(model), lora=dict(rank=2, targets=('q', 'v')))
  config.sampler = launched(url)
  config.agent.context.update(kind='notes', window=1)
  if mode in ('train', 'dpo'):
    config.warmstart.episodes = 0
  if mode == 'train':
    config.horizon.update(kind='success', threshold=0.4, window=2)
    config.algo = dict(name='ppo', minibatches=2)
  return config


@contextlib.contextmanager
def endpoint():
  """A chat endpoint that is too busy for its first request; gives its URL."""
  busy = [True]

  class Handler(http.server.BaseHTTPRequestHandler):

    def do_POST(self):
      self.rfile.read(int(self.headers['Content-Length']))
      message = {'role': 'assistant', 'content': 'turn left'}
      reply = {'choices': [{'message': message, 'finish_reason': 'stop'}]}
      body = json.dumps(reply).encode()
      self.send_response(429 if busy else 200)
      if busy:
        self.send_header('Retry-After', '0')
      self.send_header('Content-Type', 'application/json')
      self.send_header('Content-Length', str(len(body)))
      self.end_headers()
      self.wfile.write(body)
      busy.clear()

    def log_message(self, *args):
      pass

  with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler) as found:
    threading.Thread(target=found.serve_forever).start()
    yield f'http://127.0.0.1:{found.server_port}/v1'
    found.shutdown()


def conversations(path):
  """A file of demonstrations."""
  said = (
      ('system', 'Go to the ball.'),
      ('user', 'Your goal: go to red ball 1.'),
      ('assistant', 'go to red ball 1'),
  )
  talk = [{'role': role, 'content': text} for role, text in said]
  path.write_text((json.dumps({'messages': talk}) + '\n') * 4)
  return str(path)


def preferences(path):
  """A file of pairs."""
  asked = [{'role': 'user', 'content': 'Your goal: go to red ball 1.'}]
  reply = lambda text: [*asked, {'role': 'assistant', 'content': text}]
  pair = {'chosen': reply('go to red ball 1'), 'rejected': reply('turn left')}
  path.write_text((json.dumps(pair) + '\n') * 2)
  return str(path)


def elsewhere(config, url, env_url, directory):
  """The same with servers that run already, of the policy and of the world.

  All parameters are trained, by GiGPO.
  """
  config.sampler = dict(
      kind='sglang',
      urls=(url,),
      push_dir=str(directory / 'pushed'),
      api_key_file=str(directory / 'key'),
      admin_key_file=str(directory / 'key'),
  )
  config.env.url = env_url
  config.env.token_file = str(directory / 'key')
  config.agent.context = dict(kind='summary', budget=300, summary_tokens=8)
  if 'horizon' in config:
    config.horizon = dict(kind='token_budget', turns=(2,), tokens=100.0)
    config.algo = dict(
        name='gigpo',
        minibatches=2,
        importance_low=0.1,
        importance_cap=5.0,
        sequence_low=0.5,
        sequence_high=2.0,
    )
    config.num_steps = 2
    config.rollout.update(ahead=1, max_staleness=2)
  return config


@pytest.fixture(scope='module')
def seen(tmp_path_factory, quick_compilation):
  """Paths that were read, by mode."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(variants.VARIANTS, 'tiny-1m', small.network())
    return read_by_runs(tmp_path_factory.mktemp('runs'))


def read_by_runs(directory):
  """Paths that are read by runs in which each mode has each of its parts once."""
  recorder = Recorder(directory)
  base = recorder.run(tiny('sft'))
  for mode in ('dpo', 'agentevol'):
    recorder.run(tiny(mode))

  config = quickstart.get_config('tiny')
  config.num_steps, config.eval.num_tasks = 2, 2
  config.agent.update(deliberating('fold'))
  config.optim.max_tokens = 1
  config.rollout.update(
      tasks_per_step=1, max_completion_tokens=8, max_context=512
  )
  config.horizon.turns = (1, 2)
  config.tasks = dict(order='stages', stages=(('GoToRedBall',),), window=1)
  config.eval.update(every=1, horizon=2)
  config.algo.update(kl_coef=0.1, kl_target=0.1)
  played = recorder.run(config)
  config.rollout.recorded = str(played)
  config.eval.update(num_tasks=0, every=0)
  recorder.run(config)

  config = config_lib.defaults('evaluate')
  config.model.name, config.eval.num_tasks = str(base), 2
  recorder.run(config)
  for name in ('e1', 'e2', 'e3'):
    recording.simple(directory / name, [[1], [0]], name=name)
  config = config_lib.defaults('compare')
  config.compare.update(
      a=(str(directory / 'e1'),),
      b=(str(directory / 'e2'),),
      more=(str(directory / 'e3'),),
  )
  recorder.run(config)
  config = config_lib.defaults('compare')
  config.compare.plan = True
  config.plan.rate = 0.5
  recorder.run(config)
  config = config_lib.defaults('doctor')
  # One that can be examined would be read as its own mode.
  config.doctor.config = 'configs/none.py'
  with pytest.raises(SystemExit):
    recorder.run(config)
  config = config_lib.defaults('study')
  config.study.folder = str(directory)
  recorder.run(config)
  config = config_lib.defaults('inspect')
  config.inspect.episodes = str(played / 'episodes' / 'train' / '000000.jsonl')
  recorder.run(config)
  config = config_lib.defaults('export')
  config.checkpoint.path = str(base)
  folder = recorder.run(config)

  (directory / 'key').write_text('secret\n')
  launch = Launch(python=sys.executable, module='agentrl.serving.launch_server')
  [port] = sglang.ports(launch)
  server = sglang.Server(
      launch, port, directory / 'log', flags=('--api-key', 'secret')
  )
  world = EnvServer(
      'babyai',
      {'levels': ('GoToRedBall',), 'style': 'compact'},
      expert=True,
      flags=[f'--token_file={directory / "key"}'],
  )
  server.start(folder)
  try:
    for mode in ('train', 'sft', 'dpo', 'agentevol'):
      config = adapted(mode, base, server.url)
      recorder.run(config)
      config = elsewhere(config, server.url, world.url, directory)
      config.model.lora.rank = 0
      config.model.lora.targets = Lora().targets
      if mode == 'dpo':
        config.pairs = dict(files=(preferences(directory / 'pairs'),))
        config.explore.tasks = 0
      elif mode != 'train':
        config.data = dict(files=(conversations(directory / 'talks'),))
      recorder.run(config)
    config = config_lib.defaults('evaluate')
    config.model.name, config.eval.num_tasks = str(base), 2
    recorder.run(elsewhere(config, server.url, world.url, directory))
    config.env = {}
    config.agent = deliberating('notes')
    config.sampler = launched(server.url)
    recorder.run(config)
    config = config_lib.defaults('evaluate')
    config.model = dict(name=server.url, tokenizer=str(folder))
    config.rollout = dict(max_completion_tokens=8, max_context=1024)
    panel = dict(name='babyai', options=dict(style='compact'))
    config.eval.panels = ({'env': panel, 'eval': dict(num_tasks=2, horizon=2)},)
    with pytest.MonkeyPatch.context() as patch:
      patch.setenv('AGENTRL_SAMPLER_API_KEY', 'secret')
      recorder.run(config)
    config.model = dict(name='api')
    config.api = dict(
        model='some',
        token_file=str(directory / 'key'),
        backoff_s=0.0,
        price_input=1.0,
        price_output=1.0,
    )
    with endpoint() as config.api.url:
      recorder.run(config)
  finally:
    world.stop()
    server.stop()

  config = config_lib.defaults('serve_env')
  config.serve.port = port
  with interrupted_at(f'http://127.0.0.1:{port}/health'):
    recorder.run(config)
  config = config_lib.defaults('view')
  config.view.port = port
  with interrupted_at(f'http://127.0.0.1:{port}/'):
    recorder.run(config, directory)
  config = config_lib.defaults('serve_policy')
  config.model.name = str(base)
  config.serve.update(port=port, warmup=False)
  with interrupted_at(f'http://127.0.0.1:{port}/health'):
    recorder.run(config)
  return recorder.seen


@pytest.mark.parametrize('mode', MODULES)
def test_every_field_is_read_at_its_dotted_path(seen, mode):
  paths = set()
  for path in config_lib.leaves(mode):
    # Options are the environment's own to read, and `algo.name` decides which
    # class the hyperparameters are of.
    options = path.startswith('env.options.')
    paths.add('env.options' if options else path)
  assert paths - seen[mode] - {'algo.name'} == set()
