"""The algorithm and the schedule of agentrl/algos/README.md, as written there."""

import json
import pathlib

import numpy as np
import pytest

from agentrl import config as config_lib, schedules
from agentrl.algos import algorithm, grpo, online
from agentrl.config import commandline, report, resume
from agentrl.errors import ConfigError
from configs import quickstart
from tests import own_files, tiny
from tests.config.refusals import refusal
from tests.e2e.running import QUICKSTART, finish, lines

PAGE = pathlib.Path(__file__).parents[2] / 'agentrl' / 'algos' / 'README.md'
ALGO, SCHEDULE = 'my_algo:ALGORITHM', 'my_schedule:SCHEDULE'
FLAGS = (
    f'--config.algo.name={ALGO}',
    '--config.algo.power=1.5',
    f'--config.horizon.kind={SCHEDULE}',
)
# Beside the page's algorithm: what can be wrong with one.
WRONG = """
import dataclasses
from agentrl.algos.algorithm import Algorithm
from agentrl.algos.hyperparams import Online
from agentrl.fields import field
from agentrl.schedules import Horizon


def make(name, advantages, **fields):
  values = {'name': f'wrong:{name}', **fields}
  values['__annotations__'] = dict.fromkeys(fields, int)
  made = dataclasses.dataclass(frozen=True, kw_only=True)(
      type('H', (Online,), values)
  )
  return Algorithm(hyperparams=made, advantages=advantages)


EPISODES = make('EPISODES', lambda batch, hyperparams, num_groups: (
    batch.replace(advantages=batch.episode_return)))
ARRAY = make('ARRAY', lambda batch, hyperparams, num_groups: batch.rewards)
NONE = make('NONE', lambda batch, hyperparams, num_groups: batch)
EPOCHS = make('EPOCHS', None, epochs=field(3, 'passes', ge=1))
RENAMED = make('OTHER', None)
CLASS = Algorithm(hyperparams=dict, advantages=None)
HALF = lambda options: Horizon(
    lambda: None, lambda state, step, stats: (state, 0.5), 'half')
NO_SCHEDULE = lambda options: options.turns
"""


@pytest.fixture(scope='module', autouse=True)
def own(tmp_path_factory):
  """The folder of the page's files, importable here and in children."""
  folder = own_files.write(PAGE, tmp_path_factory.mktemp('own'))
  (folder / 'wrong.py').write_text(WRONG)
  with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(folder))
    patch.setenv('PYTHONPATH', str(folder))
    yield folder


def parse(*argv):
  config = quickstart.get_config('tiny')
  commandline.override(config, ['launch.py', *argv])
  return config


def test_the_page_is_short():
  page = PAGE.read_text()
  section = page.partition('## Of your own')[2].partition('\n## ')[0]
  assert len(section.splitlines()) <= 60


def test_its_hyperparameters_are_flags_and_fields_of_a_config():
  made = config_lib.read(parse(*FLAGS))
  assert (made.algo.power, made.algo.minibatches) == (1.5, 2)
  config = quickstart.get_config('tiny')
  # Whatever comes first.
  config.algo = dict(power=3.0, name=ALGO)
  assert config_lib.read(config).algo == algorithm.hyperparams(ALGO)(power=3.0)
  config.algo = dict(name='ppo')
  assert config_lib.read(config).algo.name == 'ppo'
  text = f"--config.algo={{'power': 0.5, 'name': '{ALGO}'}}"
  assert config_lib.read(parse(text)).algo.power == 0.5


def test_it_is_listed_kept_and_continued(capsys, tmp_path):
  report.show_fields('train', 'algo', ALGO)
  said = capsys.readouterr().out
  assert 'algo.power' in said and 'power of an advantage' in said
  kept = config_lib.record(config_lib.read(parse(*FLAGS)))
  assert kept['algo']['name'] == ALGO and kept['algo']['power'] == 1.5
  assert config_lib.usual(kept)['algo.power'] == 2.0
  resume.keep(kept, tmp_path)
  (tmp_path / 'metrics.jsonl').write_text('{}\n')
  assert resume.check(kept, tmp_path)
  kept['algo']['power'] = 2.0
  with pytest.raises(ConfigError, match='algo.power=1.5'):
    resume.check(kept, tmp_path)


def test_a_default_that_it_changes_is_its_own():
  config = parse('--config.algo.name=wrong:EPOCHS')
  assert config_lib.read(config).algo.epochs == 3
  # What is said is said, the usual default as well.
  config = parse('--config.algo.name=wrong:EPOCHS', '--config.algo.epochs=1')
  assert config_lib.read(config).algo.epochs == 1


def in_two_segments(batch):
  """The same tokens, of which the later half of each row is a new segment."""
  episodes = np.asarray(batch.segment_ids)
  second = np.arange(episodes.shape[1]) >= episodes.shape[1] // 2
  return batch.replace(
      segment_ids=np.where(episodes, 2 * episodes - 1 + second, 0),
      episode_ids=episodes,
  )


@pytest.mark.parametrize('change', [lambda batch: batch, in_two_segments])
def test_its_advantages_are_those_of_the_page(change):
  batch = change(tiny.make_batch(tiny.random_groups(0)))
  hyperparams = algorithm.hyperparams(ALGO)(power=2.0)
  groups = len(set(np.asarray(batch.group_ids)))
  found, usual = (
      np.asarray(advantages(batch, num_groups=groups).advantages)
      for advantages in (
          online.bind_advantages(hyperparams),
          online.bind_advantages(grpo.Hyperparams()),
      )
  )
  np.testing.assert_allclose(found, np.sign(usual) * usual**2, rtol=1e-5)
  assert online.find(ALGO).loss is grpo.loss
  online.check(hyperparams)


@pytest.mark.parametrize(
    'name, message',
    [
        (
            'EPISODES',
            r'shape \(4,\); one for each token, \[B, T\], is \(4, 6\)',
        ),
        ('ARRAY', 'return the batch, batch.replace'),
        ('NONE', r'have the shape None; one for each token'),
    ],
)
def test_advantages_of_another_shape_are_one_clear_error(name, message):
  made = config_lib.read(parse(f'--config.algo.name=wrong:{name}')).algo
  with pytest.raises(ConfigError, match=message):
    online.check(made)


@pytest.mark.parametrize('name', online.ONLINE)
def test_those_that_come_along_pass_the_check(name):
  online.check(online.find(name).hyperparams())


@pytest.mark.parametrize(
    'fields, message',
    [
        ({'algo.name': 'wrong:RENAMED'}, "write name = 'wrong:RENAMED' in its"),
        ({'algo.name': 'wrong:CLASS'}, 'a dataclass that is derived from'),
        ({'algo.name': 'wrong:make'}, 'is a function, not an Algorithm'),
        ({'algo.name': 'wrong:GONE'}, "has no attribute 'GONE'"),
        ({'algo.name': 'nowhere:A'}, "algo.name='nowhere:A': No module"),
        ({'algo.name': ALGO, 'algo.power': 0.0}, 'algo.power must be above 0'),
        (
            {'algo.name': ALGO, 'algo.gamma': 0.5},
            'algo.gamma has no effect',
        ),
        ({'algo.power': 2.0}, 'Unknown field algo.power'),
        ({'horizon.kind': 'grow'}, 'or module:NAME of your own'),
    ],
)
def test_what_is_none_is_refused_with_the_reason(fields, message):
  assert message in refusal(quickstart.get_config('tiny'), fields)


@pytest.mark.parametrize(
    'kind, message',
    [
        ('wrong:HALF', 'wrong:HALF allows 0.5 turns at step 3'),
        ('wrong:NO_SCHEDULE', 'gave tuple: a schedule is a function from'),
        ('wrong:GONE', "horizon.kind='wrong:GONE': module"),
        ('wrong:EPOCHS', 'is an Algorithm, not a Callable'),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_reason(kind, message):
  made = config_lib.read(parse(f'--config.horizon.kind={kind}')).horizon
  with pytest.raises(ConfigError, match=message):
    schedules.make(made).update(None, 3, {})


def test_the_schedule_of_the_page_grows_with_success():
  made = config_lib.read(parse(FLAGS[2], '--config.horizon.turns=3'))
  schedule = schedules.make(made.horizon)
  state, seen = schedule.init(), []
  for success in (None, 0.4, 0.6, 1.0):
    stats = {} if success is None else {'rollout/success': success}
    state, turns = schedule.update(json.loads(json.dumps(state)), 0, stats)
    seen.append(turns)
  assert seen == [3, 3, 4, 5]


@pytest.mark.slow
def test_both_learn_from_the_command_line(tmp_path):
  page = PAGE.read_text().replace('\\\n', '')
  [command] = [
      line for line in page.splitlines() if ALGO in line and '--' in line
  ]
  assert set(FLAGS) < set(command.split())
  finish(tmp_path, *FLAGS, '--config.eval.num_tasks=0', config=QUICKSTART)
  assert len(lines(tmp_path / 'metrics.jsonl')) == 2
  kept = json.loads((tmp_path / 'config.json').read_text())
  assert kept['algo']['name'] == ALGO and kept['horizon']['kind'] == SCHEDULE
