"""The routes and field names of AgentGym's servers, as data.

Our servers speak them, so AgentGym's clients can drive ours; our client speaks
them, so it can drive AgentGym's. Where the original is inconsistent between
environments, the table says how.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

# Meaning of the number in a /step reply.
DELTA = 'delta'  # the reward of this step
CUMULATIVE = 'cumulative'  # the sum so far
TERMINAL = 'terminal'  # meaningful only in the reply that ends the episode


@dataclasses.dataclass(frozen=True)
class Dialect:
  """Routes and field names of one environment's server.

  Every server has POST /create, /reset and /step and GET /observation.

  Attributes:
    success: success of an ended episode, from its total reward, all worths.
    episode_key: request field that names a live episode.
    created_key: field of the /create reply that holds it; None: the reply is
      the bare number.
    task_key: field of /reset that names the task.
    create_task_key: field of /create that names the task too, where needed.
    create_resets: whether /create also starts the task numbered like the
      episode and answers as /reset does.
    reset_extra: further fields that /reset requires.
    prompt_keys: fields of the /reset reply that make the first observation,
      joined by newlines; empty: the reply is the bare text.
    reward_key: field of the /step reply that is read as reward.
    reward_kind: what it is.
    worth: what it is worth, on the scale where a solved task is 1.
    has_score: whether /step and /reset replies also carry a running `score`.
    observation_is_state: whether GET /observation answers as /detail does, and
      not the bare text.
    ended_key: field that says that the episode is over.
    closed_key: field of the /close reply that says whether the episode was
      live; None: the reply is that alone.
    default_task: the task that /reset takes when the request names none.
    failed_reset: a first observation that means that the reset failed.
    queries: further GET routes; `Env.query` answers them.
    renders: whether POST /render answers with a picture, `Env.picture`.
    step_extra: further fields of the /step reply, which say nothing.
    greeting: what the original's GET / says, where that names the environment.
    observation_key: field of the /step reply with the observation.
    observes: whether the first observation is GET /observation's, and not the /reset
      reply's.
    actions_key: field of the /reset and /step replies that lists the actions that can
      be done, which observations then end with.
    action_form: how an action is sent.
    closes: whether the server has POST /close. An episode of one that has none lives as
      long as its server.
  """

  success: Callable[[float], bool] = lambda total: total >= 1.0
  episode_key: str = 'id'
  created_key: str | None = 'id'
  task_key: str = 'data_idx'
  create_task_key: str | None = None
  create_resets: bool = False
  reset_extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  prompt_keys: tuple[str, ...] = ('observation',)
  reward_key: str = 'reward'
  reward_kind: str = DELTA
  worth: Callable[[float], float] = float
  has_score: bool = False
  observation_is_state: bool = False
  ended_key: str = 'done'
  closed_key: str | None = None
  default_task: int | None = None
  failed_reset: str | None = None
  queries: tuple[str, ...] = ()
  renders: bool = False
  step_extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  greeting: str | None = None
  observation_key: str = 'observation'
  observes: bool = False
  actions_key: str | None = None
  action_form: str = '{action}'
  closes: bool = True

  @property
  def foreign(self) -> tuple[str, ...]:
    """Names of fields that are set and that only the client speaks."""
    names = (
        'observation_key',
        'observes',
        'actions_key',
        'action_form',
        'closes',
    )
    usual = {x.name: x.default for x in dataclasses.fields(self)}
    return tuple(x for x in names if getattr(self, x) != usual[x])


def own_greeting(name: str) -> str:
  """The answer to GET / of our server of environment `name`."""
  return f'agentrl {name} environment server'


def other_environment(
    greeting: str,
    name: str,
    dialect: Dialect,
    greetings: Collection[str | None],
) -> str | None:
  """The name of another environment whose server answers; None: not known.

  Some of AgentGym's servers only say "ok".

  Args:
    greeting: the answer to GET /.
    name: of the expected environment.
    dialect: of it.
    greetings: of the environments that are known.
  """
  if greeting in (own_greeting(name), dialect.greeting):
    return None
  ours = re.fullmatch(own_greeting('(.+)'), greeting)
  if ours:
    return repr(ours[1])
  theirs = re.fullmatch(r'This is environment (.+)\.', greeting)
  # A user's own dialect may be that of an environment unknown here.
  is_other = greeting in greetings or dialect.greeting
  return repr(theirs[1]) if theirs and is_other else None
