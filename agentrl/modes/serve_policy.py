"""mode='serve_policy': any checkpoint behind SGLang's and OpenAI's routes."""

from ml_collections import ConfigDict

from agentrl.config import resume
from agentrl.http import auth
from agentrl.http.auth import Keys
from agentrl.modes import reading
from agentrl.serving import policy_server
from agentrl.weights import model_card


def run(config: ConfigDict, workdir: str | None) -> None:
  """Serves `config.model` until a signal comes; needs no workdir.

  Raises:
    AgentrlError: the model or a key cannot be loaded, or the port is taken.
  """
  del workdir
  config = reading.read(config)
  files = config.serve
  # Before the model is loaded: a key that cannot be read must not cost minutes.
  keys = Keys(
      api=_key(files.api_key_file), admin=_key(files.admin_api_key_file)
  )
  run = resume.trained_with(config.model.name)
  policy_server.serve(
      config.model,
      config.sampler,
      config.serve,
      keys,
      trained_with=run and model_card.trained_with(run),
      compile_folder=config.compile_cache,
  )


def _key(path: str | None) -> str | None:
  return None if path is None else auth.read_token(path)
