"""Sections of a config about inference; imports no jax."""

import dataclasses
import functools
import urllib.parse
from typing import Any

from agentrl import fields
from agentrl.errors import ConfigError
from agentrl.fields import ActsIf, unless_set

API = 'api'  # the endpoint, as a policy in model.name
MAX_TEMPERATURE = 2.0  # the highest temperature of the protocol

# Fields of a request that are set from other options, or that would change the
# form of the reply.
_OWN = (
    'model',
    'messages',
    'temperature',
    'seed',
    'max_tokens',
    'max_completion_tokens',
    'stream',
    'stream_options',
    'n',
    'tools',
    'functions',
    'logprobs',
)


def is_asked(config: Any) -> bool:
  """True if the endpoint is among the policies of a config."""
  return API in config.model.name.split(';')


_ASKED = ActsIf(
    is_asked,
    {
        'model.name': API,
        'api.url': 'http://127.0.0.1:1/v1',
        'api.model': 'gpt-5-mini',
    },
    f'it acts with model.name={API!r}, or with that among several',
)
_PRICED = ActsIf(
    lambda config: None
    not in (config.api.price_input, config.api.price_output),
    {'api.price_input': 1.0, 'api.price_output': 1.0},
    'a cost needs both api.price_input and api.price_output',
)
field = functools.partial(fields.field, acts_if=_ASKED)
_price = functools.partial(fields.field, None, ge=0, acts_if=(_ASKED, _PRICED))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChatOptions:
  """A chat policy behind an OpenAI-compatible endpoint."""

  url: str | None = field(
      None,
      'address of the endpoint up to /v1, before /chat/completions',
      example='http://127.0.0.1:30000/v1',
  )
  model: str | None = field(
      None, 'name of the model there', example='gpt-5-mini'
  )
  # The key itself stands in no config: configs are recorded.
  token_file: str | None = field(
      None, 'file that holds the API key', example='key.txt'
  )
  token_variable: str | None = field(
      None,
      'environment variable that holds the API key',
      example='OPENAI_API_KEY',
  )
  temperature: float | None = fields.field(
      1.0,
      "sampling temperature; None: the endpoint's own",
      ge=0,
      le=MAX_TEMPERATURE,
      acts_if=(
          _ASKED,
          unless_set(
              'eval.temperatures', (), 'eval.temperatures has all of them'
          ),
      ),
  )
  send_seed: bool = field(
      True, 'send a seed with each request; some endpoints refuse one'
  )
  limit_name: str = field(
      'max_completion_tokens',
      'request field that limits a completion; older servers know max_tokens',
      one_of=('max_completion_tokens', 'max_tokens'),
  )
  system_role: bool = field(
      True, 'put the instructions into a system message, else the first of user'
  )
  extra: dict[str, Any] | None = field(
      None,
      'further fields of each request',
      example={'reasoning_effort': 'low'},
  )
  timeout_s: float = field(300.0, 'seconds of one HTTP exchange', gt=0)
  attempts: int = field(6, 'tries of a request', ge=1)
  backoff_s: float = field(
      1.0, 'seconds before the second try; doubles with each further one', ge=0
  )
  max_wait_s: float = field(
      60.0, 'longest pause before a try; a longer Retry-After is an error', gt=0
  )
  price_input: float | None = _price('price of a million prompt tokens')
  price_cached: float | None = _price(
      'the same of cached ones; None: as price_input'
  )
  price_output: float | None = _price('price of a million completion tokens')

  def check(self) -> None:
    """Refuses an address, a key or prices that cannot be used together.

    Raises:
      ConfigError: names the field.
    """
    if self.url is not None:
      _check_url(self.url)
    if self.token_file and self.token_variable:
      raise ConfigError(
          'api.token_file and api.token_variable both name a key; set one.'
      )
    own = [name for name in self.extra or () if name in _OWN]
    if own:
      raise ConfigError(
          f'api.extra must not have {", ".join(own)}: other fields of api set'
          ' them, or the reply would have another form.'
      )
    if (self.price_input is None) != (self.price_output is None):
      raise ConfigError(
          'A cost needs both api.price_input and api.price_output, got'
          f' {self.price_input} and {self.price_output}.'
      )
    if self.price_cached is not None and self.price_input is None:
      raise ConfigError(
          'api.price_cached has no effect without api.price_input and'
          ' api.price_output.'
      )

  def check_named(self) -> None:
    """Refuses an endpoint that is not named whole; implies no `check`.

    Raises:
      ConfigError: the address or the model is missing.
    """
    if self.url is None:
      raise ConfigError(
          'api.url is not set: name the endpoint, as in http://HOST:PORT/v1.'
      )
    if not self.model:
      raise ConfigError(
          f'api.model is not set: name a model of {self.url}; GET'
          f' {self.url}/models lists them.'
      )

  def cost(
      self,
      prompt_tokens: int | None,
      cached_tokens: int | None,
      completion_tokens: int | None,
  ) -> float | None:
    """The price of such usage; None: tokens or prices are unknown.

    Where the endpoint does not report cached tokens, none were: the cost is
    then an upper bound.

    Args:
      prompt_tokens: the cached ones included.
      cached_tokens: of those.
      completion_tokens: with the tokens of a reasoning.
    """
    if self.price_input is None or self.price_output is None:
      return None
    if prompt_tokens is None or completion_tokens is None:
      return None
    of_cached = self.price_cached
    if of_cached is None:
      of_cached = self.price_input
    cached = cached_tokens or 0
    return (
        (prompt_tokens - cached) * self.price_input
        + cached * of_cached
        + completion_tokens * self.price_output
    ) / 1e6


def _check_url(url: str) -> None:
  try:
    parts = urllib.parse.urlsplit(url)
    is_http = parts.scheme in ('http', 'https') and parts.hostname
    parts.port  # noqa: B018  # raises where it is no number
  except ValueError:
    is_http = None
  if not is_http:
    raise ConfigError(
        f'api.url={url!r} is no address; set it as in http://HOST:PORT/v1.'
    )
  if parts.username is not None or parts.password is not None:
    # Not shown: it may hold the key.
    raise ConfigError(
        'api.url must not hold a name or password; set api.token_file.'
    )
  if parts.query or parts.fragment:
    raise ConfigError(f'api.url={url!r} must end before ? and #.')
  if parts.path.rstrip('/').endswith('/completions'):
    raise ConfigError(
        f'api.url={url!r} must end before /chat/completions, as in'
        ' https://HOST/v1.'
    )
