"""Typed, bounded reading of what environment servers answer.

A server may be anybody's: whatever it says becomes a value of the type that the
route has, or an EnvError that names the field. Fields that no type names are
ignored, so AgentGym's own servers pass as they are.
"""

import functools
from typing import Annotated, Any, NotRequired, TypedDict

import aiohttp
import msgspec

from agentrl.envs.dialect import Dialect
from agentrl.errors import EnvError
from agentrl.http import replies

# Far below what hurts the run. A text beyond the context of any policy still is
# one: its episode ends with `context`, which is no failure.
MAX_BYTES = 32 * 2**20  # of a reply, unpacked
MAX_CHARS = 8 * 2**20  # of one text
# The sum over an episode, and its square, stay finite in float32.
MAX_REWARD = 1e9

SHOWN = 200  # characters of a reply that an error repeats

Text = Annotated[str, msgspec.Meta(max_length=MAX_CHARS)]
Number = Annotated[float, msgspec.Meta(ge=-MAX_REWARD, le=MAX_REWARD)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Id = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Decoder = msgspec.json.Decoder


class _Expert(TypedDict):
  action: Text


class _Health(TypedDict):
  env: Text
  data_version: NotRequired[int]


class _Available(TypedDict):
  available_actions: list[Text]


class _State(TypedDict):
  observation: Text


class _Failure(TypedDict):
  error: NotRequired[msgspec.Raw]


class _Fault(TypedDict):
  error: Text
  fault: bool


TEXT = Decoder(Text)
EXPERT = Decoder(_Expert)
# Servers of ours that name no version have the first; others have no /health.
HEALTH = Decoder(_Health)
AVAILABLE = Decoder(_Available)
BOXES = Decoder(dict[int, tuple[Number, Number, Number, Number]])
# Bare, or in what AgentGym's BabyAI calls the state.
OBSERVATION = Decoder(Text | _State)
_FAILURE = Decoder(_Failure)
_FAULT = Decoder(_Fault)
_FAULT_CHARS = 1500  # of the words of our own server


class Unavailable(EnvError):
  """No answer, or one that says to come again: another try may succeed.

  Attributes:
    refused: whether no server listens at the address, so that every episode there
      is gone.
  """

  def __init__(self, message: str, *, refused: bool = False):
    super().__init__(message)
    self.refused = refused


class Refused(EnvError):
  """An answer with another HTTP status than 200, which is in `status`."""

  def __init__(self, message: str, status: int):
    super().__init__(message)
    self.status = status


def created(dialect: Dialect) -> Decoder:
  """Reads /create: the episode's id, bare or under `dialect.created_key`."""
  return _created(dialect.created_key)


def opened(dialect: Dialect) -> Decoder:
  """Reads /reset: the first observation, bare or in parts."""
  if not dialect.prompt_keys:
    return TEXT
  return _texts(dialect.prompt_keys, dialect.actions_key)


def stepped(dialect: Dialect) -> Decoder:
  """Reads /step: what AgentGym's servers say of it, and what ours add."""
  return _step(
      dialect.reward_key,
      dialect.ended_key,
      dialect.observation_key,
      dialect.actions_key,
  )


def _object(fields: dict[str, Any]) -> Decoder:
  return Decoder(TypedDict('Reply', fields))  # type: ignore[operator]  # the keys are a dialect's


@functools.cache
def _created(key: str | None) -> Decoder:
  return Decoder(Id) if key is None else _object({key: Id})


@functools.cache
def _texts(keys: tuple[str, ...], actions_key: str | None) -> Decoder:
  return _object(dict.fromkeys(keys, Text) | _lists(actions_key))


def _lists(key: str | None) -> dict[str, Any]:
  return {} if key is None else {key: list[Text]}


@functools.cache
def _step(
    reward_key: str,
    ended_key: str,
    observation_key: str,
    actions_key: str | None,
) -> Decoder:
  return _object({
      'success': NotRequired[bool | None],
      'progress': NotRequired[Share | None],
      'terminated': NotRequired[bool],
      'truncated': NotRequired[bool],
      observation_key: Text,
      reward_key: Number,
      ended_key: bool,
      **_lists(actions_key),
  })


async def read_body(response: aiohttp.ClientResponse) -> bytes:
  """The body of a reply.

  Raises:
    EnvError: it is longer than MAX_BYTES.
    aiohttp.ClientError: it broke off, or its encoding is broken.
  """
  try:
    return await replies.read(response, MAX_BYTES)
  except replies.TooLong as error:
    raise EnvError(
        f'{response.url} gave more than {MAX_BYTES} bytes.'
    ) from error


def failure(body: bytes) -> str | None:
  """The words of `{"error": ...}`; None for any other body."""
  if b'"error"' not in body:
    return None
  try:
    error = _FAILURE.decode(body).get('error')
  except (ValueError, RecursionError):  # other JSON, or none
    return None
  if error is None:
    return None
  try:
    return TEXT.decode(error)[:SHOWN]
  except (ValueError, RecursionError):  # not a text
    return shown(bytes(error))


def fault(body: bytes) -> str | None:
  """The words of a server of ours whose environment is at fault; else None."""
  if b'"fault"' not in body:
    return None
  try:
    reply = _FAULT.decode(body)
  except (ValueError, RecursionError):  # other JSON, or none
    return None
  return reply['error'][:_FAULT_CHARS] if reply['fault'] else None


def decode(body: bytes, decoder: Decoder, request: str) -> Any:
  """The value of a body.

  Args:
    body: of a reply.
    decoder: one of the above.
    request: that it answers, for the error.

  Raises:
    EnvError: it is not what the decoder reads; names the field.
  """
  try:
    return replies.decode(body, decoder.decode)
  except replies.OutsideContract as error:
    reason = f'JSON outside its contract ({error})'
  except replies.NotJson as error:
    reason = f'no JSON ({error})'
  raise EnvError(f'{request} gave {reason}: {shown(body)}')


def shown(body: bytes) -> str:
  """The start of a body in one line: it may be a page of another server."""
  return replies.excerpt(body, SHOWN)
