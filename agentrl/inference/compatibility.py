"""The check that an inference server suits a run, by its own account."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from absl import logging

from agentrl import shipped
from agentrl.errors import EngineRefusal, one_line
from agentrl.inference.replies import Count

# Releases of SGLang whose contract was read, the first and the last.
_FIRST, _LAST = (0, 5, 11), (0, 5, 23)
_OWN_ENGINE = 'agentrl'
# Positions of its context that SGLang gives to no prompt: 5 of them stay empty
# whatever is asked for, and a completion needs one.
RESERVED = 6


class _ServerInfo(msgspec.Struct):
  """The fields of a server's description that are read here."""

  version: Any = None
  max_req_input_len: Count | None = None
  context_length: Count | None = None
  architectures: list[str] | None = None
  model_type: str | None = None


@dataclasses.dataclass(frozen=True)
class Needs:
  """Requirements of a run on the servers that sample for it.

  Attributes:
    max_context: tokens of the longest request, its completion included.
    vocab_size: rows of the policy's embedding.
    architecture: the policy's, as config.json names it; None: any.
    served_as: the class that SGLang names in its place, which may serve other
      model types too; None: the same.
    model_type: the policy's, which decides between these.
  """

  max_context: int
  vocab_size: int
  architecture: str | None
  served_as: str | None = None
  model_type: str | None = None


def check(url: str, info: Mapping[str, Any], needs: Needs) -> None:
  """Refuses a server that cannot do what a run needs; warns of unknown ones.

  Args:
    url: of the server.
    info: its replies to `server_info` and `model_info`; what they leave out is
      not checked.
    needs: of the run.

  Raises:
    EngineError: it is too old, its context is too short, it was started with
      another model, or one of these is said in another type than SGLang's.
  """
  try:
    server = msgspec.convert(dict(info), _ServerInfo)
  except msgspec.ValidationError as error:
    raise EngineRefusal(
        f'{url} says of itself what no SGLang server says: {error}.'
    ) from error
  _check_version(url, _shown(str(server.version)))
  _check_context(url, server, needs.max_context)
  architectures = server.architectures
  # SGLang would load what it knows of the weights, and report a success.
  if needs.architecture and architectures and not _is_of(server, needs):
    raise EngineRefusal(
        f'{url} was started with a model of {_shown(", ".join(architectures))},'
        f' and the policy is {needs.architecture}; start the server with the'
        ' model of this run.'
    )


def _is_of(server: _ServerInfo, needs: Needs) -> bool:
  """True if a server was started with a model of the policy's architecture."""
  architectures = server.architectures or ()
  if needs.architecture in architectures:
    return True
  return (
      needs.served_as in architectures and server.model_type == needs.model_type
  )


def _shown(text: str) -> str:
  """A server's words, as far as a line has room for them."""
  return one_line(text, 80)


def refuse_vocabulary(url: str, vocab_size: int) -> None:
  """Raises EngineError: the server has an embedding of another size.

  SGLang ends when it is given such weights, so it must not be.
  """
  raise EngineRefusal(
      f'{url} was started with a model whose vocabulary does not have the'
      f' {vocab_size} ids of the policy; start the server with the model of'
      ' this run.'
  )


def _check_context(url: str, server: _ServerInfo, max_context: int) -> None:
  # Prompts are shorter than this, and grow by one token at least.
  limit = server.max_req_input_len
  if limit is None:
    limit = server.context_length
  if limit is not None and limit < max_context:
    enough = max_context + RESERVED
    flag = f'--context-length {enough} (SGLang keeps {RESERVED})'
    if str(server.version).startswith(_OWN_ENGINE):
      flag = f'--config.serve.max_context={enough} ({RESERVED} are kept)'
    raise EngineRefusal(
        f'{url} takes {limit} tokens, fewer than'
        f' rollout.max_context={max_context}; lower that, or start the'
        f' server with {flag} and a cache that holds them.'
    )


def _check_version(url: str, version: str) -> None:
  """Refuses what is older than the contract that was read; warns of the rest."""
  if version.startswith(_OWN_ENGINE):
    return
  supported = f'{".".join(map(str, _FIRST))} to {".".join(map(str, _LAST))}'
  match = re.match(r'(\d+)\.(\d+)\.(\d+)', version)
  if match is None:
    logging.warning(
        '%s gives the version %s; SGLang %s are supported.',
        url,
        version,
        supported,
    )
    return
  number = tuple(map(int, match.groups()))
  if number < _FIRST:
    raise EngineRefusal(
        f'{url} runs SGLang {version}; {supported} are supported, and older'
        ' ones lack what a weight push needs. Install'
        f' {shipped.requirements("sglang")} in its virtual environment.'
    )
  if number > _LAST:
    logging.warning(
        '%s runs SGLang %s, newer than the supported %s.',
        url,
        version,
        supported,
    )
