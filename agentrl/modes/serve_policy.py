"""mode='serve_policy': any checkpoint behind SGLang's HTTP protocol."""

import contextlib
import signal
import threading

from ml_collections import ConfigDict

from agentrl.modes import checkpoints, parts, settings


def read(config: ConfigDict) -> settings.ServePolicy:
  """Reads and checks a config of mode 'serve_policy'."""
  return settings.read_config(config, settings.ServePolicy)


def run(config: ConfigDict, workdir: str | None) -> None:
  """Serves `config.model` until a signal comes; needs no workdir.

  Raises:
    AgentrlError: the model cannot be loaded, or the port is taken.
  """
  del workdir
  wanted = read(config)
  serve = wanted.serve
  model, version = checkpoints.load(wanted.model.name)
  stopped = threading.Event()
  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stopped.set())
  with contextlib.ExitStack() as stack:
    _, url = parts.start_engine(
        stack,
        model,
        sampler=wanted.sampler,
        max_context=serve.max_context or model.config.max_positions,
        dtype=wanted.model.dtype,
        seed=serve.seed,
        version=version,
        host=serve.host,
        port=serve.port,
    )
    print(f'Serving {wanted.model.name} at {url}', flush=True)
    stopped.wait()
