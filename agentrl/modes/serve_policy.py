"""mode='serve_policy': any checkpoint behind SGLang's and OpenAI's routes."""

import contextlib
import signal
import threading

from absl import logging
from ml_collections import ConfigDict

from agentrl.config.modes import ServePolicy
from agentrl.engine.http.auth import Keys
from agentrl.http import auth
from agentrl.modes import checkpoints, resume
from agentrl.serving import start as serving
from agentrl.training import compile_cache

# How often to look whether all is compiled.
_POLL_S = 0.05


read = resume.read


def run(config: ConfigDict, workdir: str | None) -> None:
  """Serves `config.model` until a signal comes; needs no workdir.

  Raises:
    AgentrlError: the model or a key cannot be loaded, or the port is taken.
  """
  del workdir
  wanted = read(config)
  files = wanted.serve
  # Before the model is loaded: a key that cannot be read must not cost minutes.
  keys = Keys(
      api=_key(files.api_key_file), admin=_key(files.admin_api_key_file)
  )
  serve(wanted, keys)


def serve(wanted: ServePolicy, keys: Keys) -> None:
  """Serves a policy behind `keys` until SIGTERM or SIGINT.

  Either of them ends the process at once while the model is being loaded, and
  after the program at hand while programs are compiled: /health is 503 until
  that is done (`serve.warmup`).

  Args:
    wanted: the policy and where to serve it; its key files are not read.
    keys: what requests must carry.

  Raises:
    AgentrlError: the model cannot be loaded, the port is taken, or the folder
      for compiled programs cannot be written.
  """
  where = wanted.serve
  compile_cache.use(wanted.compile_cache)
  model, version = checkpoints.load(wanted.model.name)
  stopped = threading.Event()
  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stopped.set())
  with contextlib.ExitStack() as stack:
    engine, url = serving.start_engine(
        stack,
        model,
        sampler=wanted.sampler,
        max_context=where.max_context or model.config.max_positions,
        dtype=wanted.model.dtype,
        seed=where.seed,
        version=version,
        host=where.host,
        port=where.port,
        keys=keys,
        chat_template=where.chat_template,
        served_name=where.name or wanted.model.name,
    )
    if where.warmup:
      logging.info('%s answers /health once it has compiled.', url)
      compiled = engine.warm_up()
      while not compiled.done():
        if stopped.wait(_POLL_S):
          return
      compiled.result()
    print(f'Serving {wanted.model.name} at {url}', flush=True)
    stopped.wait()


def _key(path: str | None) -> str | None:
  return None if path is None else auth.read_token(path)
