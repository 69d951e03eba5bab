"""SearchQA, as it is served, explained and split."""

from typing import Any

from agentrl.envs import dialect
from agentrl.envs.base import EnvFactory
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.searchqa import replay_view, tasks
from agentrl.envs.spec import EnvSpec

DIALECT = dialect.Dialect(
    episode_key='env_idx',
    created_key=None,
    task_key='id',
    create_task_key='id',
    prompt_keys=(),
    step_extra={'info': None},
)

WORDS = Words(
    compact='<search>, then <answer>.',
    formats={
        'raw': (
            'Think first, between <think> and </think>, every time you get new'
            ' information. Then write one action. Text outside of the tags is'
            ' ignored.'
        )
    },
    full="""\
You are asked a question and have a search engine to find the facts. A question \
may need several facts, one after the other. You have two actions:
- <search>words</search>: shows the passages that match the words best, for \
example: <search>capital of France</search>. Search for one fact at a time.
- <answer>words</answer>: gives your answer, as short as possible, for example: \
<answer>Paris</answer>
Results come between <information> and </information>. Answer with a name, a \
number or a few words and nothing else. Your first answer ends the task.""",
)

FUNCTIONS = (
    Function('search', ('<search>{query}</search>',)),
    Function('answer', ('<answer>{text}</answer>',)),
)


def _open(**options: Any) -> EnvFactory:
  from agentrl.envs.searchqa import env

  return env.open_factory(**options)


SPEC = EnvSpec(
    name='searchqa',
    data_version=1,
    dialect=DIALECT,
    words=WORDS,
    functions=FUNCTIONS,
    options={
        'questions': None,
        'max_hops': None,
        'relations': None,
        'retriever_url': None,
        'retriever_timeout_s': 30.0,
        'topk': 3,
        'scoring': 'em',
        'retry': False,
    },
    meanings={
        'questions': (
            'file of questions, or one for each split; None: generated ones'
        ),
        'max_hops': 'hops of a generated question, at most; None: any number',
        'relations': 'relations that generated questions follow; None: all',
        'retriever_url': 'service to search with; None: the embedded index',
        'retriever_timeout_s': (
            'seconds of one search at retriever_url, at most'
        ),
        'topk': 'passages that a search shows',
        'scoring': "reward: 'em' or 'f1'",
        'retry': 'a wrong answer may be followed by another',
    },
    unsafe_options={'questions': bool, 'retriever_url': bool},
    open_factory=_open,
    list_tasks=tasks.tasks,
    task_options=('questions', 'max_hops', 'relations'),
    subtask=tasks.subtask,
    subtasks_of=tasks.subtasks,
    clusters_of=tasks.clusters,
    success=(
        'The answer that ended the episode equals a right one but for case,'
        ' punctuation and articles.'
    ),
    view=replay_view.view,
    refuses=replay_view.refuses,
    requirements=('envs', 'data'),
)
