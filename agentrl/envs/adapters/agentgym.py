"""AgentGym's further environments, which its own servers play (`env.url`).

A row for each: the wire of its server, the words that explain it and the ids of its
tasks. Routes and field names are those of AgentGym's servers (github.com/WooooDyy/AgentGym):
agentenv-webshop, agentenv-alfworld, agentenv-lmrlgym (LMRL-Gym's maze and Wordle, whose
URLs end with /maze and /wordle) and agentenv-tool (Academia, Movie, Sheet, TODO and
Weather, a server each). Those servers know no seed: what they leave to chance is their own.

Splits are ours, since AgentGym publishes them as item files: `env.task_file` and
`eval.task_file` take those.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from agentrl.envs import dialect as dialect_lib
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function, Functions
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError


def _spec(
    name: str,
    dialect: Dialect,
    words: Words,
    functions: Functions,
    splits: Mapping[str, Sequence[int]],
    *,
    start: str,
    success: str,
) -> EnvSpec:
  """The row of an environment.

  Args:
    name: of it, as in AgentGym's item files.
    dialect: the wire of its server.
    words: the policy's instructions.
    functions: its actions.
    splits: ids of tasks by split.
    start: the command of its server, and what its URL ends with.
    success: when an episode succeeds, a sentence.
  """

  def refuse() -> NoReturn:
    raise ConfigError(
        f'{name} is played by a server of AgentGym alone: start it, as in'
        f' {start}, and name its URL by env.url.'
    )

  return EnvSpec(
      name=name,
      dialect=dialect,
      words=words,
      functions=functions,
      open_factory=refuse,
      list_tasks=splits.__getitem__,
      success=success,
  )


WEBSHOP = _spec(
    'webshop',
    Dialect(
        episode_key='env_idx',
        created_key=None,
        task_key='session_id',
        observes=True,
        observation_key='state',
        closes=False,
    ),
    Words(
        full=(
            'You shop on a web site for what an instruction asks for, with the'
            ' right attributes, options and price. Search with'
            ' search[KEYWORDS], where the page has a search bar, and click with'
            ' click[VALUE] on what the page offers: items, options, Next >,'
            ' < Prev, Back to Search, Description, Features, Reviews, Buy Now.'
            ' Buying ends the task.'
        ),
        compact='Buy what is asked for.',
    ),
    (
        Function('search', ('search[{keywords}]',)),
        Function('click', ('click[{value}]',)),
    ),
    # As WebShop splits its goals; 6910 with the 1000 products that AgentGym loads.
    {'test': range(500), 'dev': range(500, 1500), 'train': range(1500, 6910)},
    start='webshop --port 36001',
    success='The item that was bought has all that was asked for.',
)

ALFWORLD = _spec(
    'alfworld',
    Dialect(
        task_key='game',
        reset_extra={'world_type': 'Text'},
        actions_key='available_actions',
        closes=False,
        greeting='This is environment AlfWorld.',
    ),
    Words(
        full=(
            'You act in the rooms of a household to reach a goal that you are'
            ' told. Each observation ends with the actions that can be done:'
            ' choose one of them, word for word. "Nothing happens" means that'
            ' an action had no effect.'
        ),
        compact='Reach the goal.',
    ),
    (Function('act', ('{action}',)),),
    # AgentGym numbers its 2420 training games first, then its 200 test games.
    {
        'train': range(2220),
        'dev': range(2220, 2420),
        'test': range(2420, 2620),
    },
    start='alfworld --port 36002',
    success='The goal in the house was reached.',
)

LMRLGYM_MAZE = _spec(
    'lmrlgym_maze',
    Dialect(
        task_key='game',
        # A step costs 1, a wall 4; the step that reaches the goal is worth 1, and one
        # that runs out of steps ends the episode, too.
        reward_kind=dialect_lib.TERMINAL,
        worth=lambda reward: float(reward >= 1.0),
        closes=False,
    ),
    Words(
        full=(
            'You walk through a maze to a goal. Each observation tells where'
            ' the goal is, where you are and on which sides of you there are'
            ' walls. The first number of a position grows as you move down, the'
            ' second as you move right. Actions: move up, move down, move left,'
            ' move right.'
        ),
        compact='Walk to the goal.',
    ),
    tuple(
        Function(f'move_{way}', (f'move {way}',))
        for way in ('up', 'down', 'left', 'right')
    ),
    # 26 places to start from.
    {'test': range(8), 'dev': range(8, 12), 'train': range(12, 26)},
    start='lmrlgym --port 36003 (env.url ends with /maze)',
    success='The goal of the maze was reached.',
)

LMRLGYM_WORDLE = _spec(
    'lmrlgym_wordle',
    Dialect(
        task_key='seed',
        closes=False,
    ),
    Words(
        full=(
            'You guess a hidden word of five letters in six guesses. Write a'
            ' guess as its letters with spaces between them, as in s h i r e.'
            ' The answer has a letter for each of yours: g if it is right where'
            ' it is, y if it is elsewhere in the word, b if it is not in the'
            ' word. What is no word gives "invalid word".'
        ),
        compact='Guess, as s h i r e.',
    ),
    (Function('guess', ('{letters}',)),),
    {
        'test': range(1000),
        'dev': range(1000, 2000),
        'train': range(2000, 20_000),
    },
    start='lmrlgym --port 36003 (env.url ends with /wordle)',
    success='The hidden word was guessed.',
)

_CALL = (
    ' Write an action as NAME with Action Input: ARGUMENTS, and arguments as'
    ' JSON, as in finish with Action Input: {"answer": "yes"}. finish ends the'
    ' task.'
)


def _tool(
    name: str, about: str, functions: str, count: int, held_out: int
) -> EnvSpec:
  """The row of an environment of agentenv-tool.

  Args:
    name: of it, without `tool_`.
    about: what its actions are for.
    functions: their names and parameters.
    count: tasks.
    held_out: tasks of the test split, the last ones; as many before them are dev's.
  """
  return _spec(
      f'tool_{name}',
      Dialect(
          episode_key='env_idx',
          created_key=None,
          create_task_key='id',
          task_key='id',
          prompt_keys=(),
          # The best share of subgoals so far.
          reward_kind=dialect_lib.CUMULATIVE,
          action_form='Action: {action}',
          closes=False,
      ),
      Words(full=f'{about} Actions: {functions}.{_CALL}', compact='Act.'),
      (Function('call', ('{name} with Action Input: {arguments}',)),),
      {
          'train': range(count - 2 * held_out),
          'dev': range(count - 2 * held_out, count - held_out),
          'test': range(count - held_out, count),
      },
      start=f'{name} --port 36010',
      success=f'All subgoals of the {name} task were reached.',
  )


TOOL_ACADEMIA = _tool(
    'academia',
    'Answer questions about papers and authors.',
    'loadPaperNet(), loadAuthorNet(), neighbourCheck(graph, node),'
    ' paperNodeCheck(node), authorNodeCheck(node), authorEdgeCheck(node1,'
    ' node2), finish(answer)',
    19,
    5,
)
TOOL_MOVIE = _tool(
    'movie',
    'Answer questions about films and people.',
    'get_search_movie(movie_name), get_movie_details(movie_id),'
    ' get_movie_production_companies(movie_id),'
    ' get_movie_production_countries(movie_id), get_movie_cast(movie_id),'
    ' get_movie_crew(movie_id), get_movie_keywords(movie_id),'
    ' get_search_person(person_name), get_person_details(person_id),'
    ' get_person_cast(person_id), get_person_crew(person_id),'
    ' get_person_external_ids(person_id),'
    ' get_movie_alternative_titles(movie_id), get_movie_translation(movie_id),'
    ' check_valid_actions(), finish(answer)',
    238,
    20,
)
TOOL_SHEET = _tool(
    'sheet',
    'Change a spreadsheet as you are told.',
    'open_sheet(name), del_sheet(name), freeze_data(dimension, num),'
    ' get_A1_annotation(row, col), insert_cols(values_list, col_idx),'
    ' insert_rows(values_list, row_idx), delete_batch_data(dimension,'
    ' index_list), update_cell(position, value),'
    ' update_cell_by_formula(start_position, end_position, position_list,'
    ' result_position, operator), update_range(start_position, end_position,'
    ' values_list), sort_sheet_by_col(col_num, order),'
    ' merge_cells(start_position, end_position), update_note(position,'
    ' content), get_all_values(), get_range_values(start_position,'
    ' end_position), get_cell_value(position),'
    ' get_value_by_formula(start_position, end_position, position_list,'
    ' operator), filter_cells(query, in_row, in_column), get_note(position),'
    ' finish()',
    20,
    5,
)
TOOL_TODO = _tool(
    'todo',
    'Answer questions about a list of tasks and change it.',
    'get_user_current_date(), get_user_current_location(), get_projects(),'
    ' update_project(project_id, is_favorite), get_tasks(project_id),'
    ' get_task_description(task_id), get_task_duration(task_id),'
    ' complete_task(task_id), update_task(task_id, due_date),'
    ' delete_task(task_id), check_valid_actions(), finish(answer)',
    155,
    20,
)
TOOL_WEATHER = _tool(
    'weather',
    'Answer questions about the weather.',
    'get_user_current_date(), get_user_current_location(),'
    ' get_latitude_longitude(name), get_elevation(latitude, longitude),'
    ' get_distance(latitude1, longitude1, latitude2, longitude2),'
    ' get_air_quality_level(air_quality_index), check_valid_actions(),'
    ' finish(answer); with (latitude, longitude, start_date, end_date)'
    ' get_historical_temp, get_historical_rain, get_historical_snow,'
    ' get_historical_air_quality_index, get_temp_forecast, get_rain_forecast,'
    ' get_snow_forecast; with (latitude, longitude, current_date)'
    ' get_current_temp, get_current_rain, get_current_snow,'
    ' get_current_air_quality_index',
    343,
    20,
)
