"""Every field of every config is a flag, and is found where it belongs."""

import contextlib
import dataclasses
import functools
import pathlib

import pytest
from absl import flags

from agentrl import config as config_lib, fields
from agentrl.algos.hyperparams import ONLINE
from agentrl.config import build, commandline
from agentrl.envs import ENVS
from agentrl.errors import ConfigError

CONFIGS = pathlib.Path(__file__).parents[2] / 'configs'
# What a file cannot do without.
ARGUMENTS = {
    'compare': ':a=x,b=y',
    'export': ':run=x',
    'inspect': ':episodes=x',
    'study': ':folder=x',
}
FILES = {
    path.stem: f'{path}{ARGUMENTS.get(path.stem, "")}'
    for path in sorted(CONFIGS.glob('*.py'))
    if 'def get_config(' in path.read_text(encoding='utf-8')
}
# One of each mode: its fields are given one at a time. Those of the others are
# the same, over other values, and are given together.
SINGLY = (
    *('babyai_agentevol', 'babyai_dpo', 'babyai_sft', 'compare', 'doctor'),
    *('evaluate', 'export', 'inspect', 'quickstart', 'serve_env'),
    *('serve_policy', 'study', 'view'),
)
SIBLINGS = [name for name in FILES if name not in SINGLY]
SERVERS = {'sampler.kind': 'sglang', 'sampler.urls': ('http://127.0.0.1:1',)}
EVALUATED = {
    'num_steps': 9,
    'eval.num_tasks': 8,
    'eval.every': 4,
    'eval.small.num_tasks': 4,
    'eval.small.every': 2,
    'eval.horizon': 99,
}
# What a field, or one of its values, asks for beside it, where that is no
# condition under which it acts.
BESIDE = {
    # A tokenizer of a task is trained on the expert's episodes.
    # An adapter needs a pretrained model.
    'model.vocab_size': {'warmstart.episodes': 16, 'model.lora.rank': 0},
    # There is one teacher.
    'algo.teacher.model': {'algo.teacher.urls': ()},
    'algo.teacher.urls': {'algo.teacher.model': None},
    # A stage lasts, and a fixed horizon is one.
    ('horizon.kind', 'stepwise'): {'horizon.every': 7},
    ('horizon.kind', 'linear'): {'horizon.every': 7},
    ('horizon.kind', 'fixed'): {'horizon.every': 0, 'horizon.turns': (3,)},
    ('horizon.kind', 'success'): {'horizon.every': 0},
    ('horizon.kind', 'saturation'): {'horizon.every': 0},
    ('horizon.kind', 'random'): {
        'horizon.every': 0,
        'horizon.turns': (3, 6),
    },
    ('horizon.kind', 'token_budget'): {
        'horizon.every': 0,
        'horizon.tokens': 1e6,
    },
    'horizon.tokens': {'horizon.every': 0},
    # Stages are of the order that has them.
    ('tasks.order', 'shuffled'): {'tasks.stages': ()},
    # Evaluations that a horizon follows have to come.
    'horizon.metric': {'horizon.every': 0, **EVALUATED},
    # A budget that is smaller than the context.
    ('agent.context.kind', 'summary'): {'rollout.max_context': 8192},
    # It alone divides by something, of which there is no default.
    'algo.aggregation': {'algo.aggregation_constant': None},
    ('algo.aggregation', 'constant'): {'algo.aggregation_constant': 512.0},
    # One range.
    'algo.sequence_low': {'algo.sequence_high': 2.0},
    'algo.sequence_high': {'algo.sequence_low': 0.5},
    # Old samples need a correction.
    'rollout.ahead': {'algo.ratio': 'sampler'},
    # Pairs come from files or from exploring.
    'pairs.files': {'explore.tasks': 0, 'pairs.with_expert': False},
    # One of three says where servers are; a router's may be on other hosts.
    ('sampler.kind', 'sglang'): {'sampler.urls': ('http://127.0.0.1:1',)},
    'sampler.router': {'sampler.urls': (), 'sampler.push_dir': 'shared'},
    'sampler.launch.python': {'sampler.urls': ()},
    # Slots that a config gives are for as many sequences as it has.
    'sampler.max_running': {'sampler.slots': 0},
    # Intervals over training seeds are over several runs a side.
    ('compare.unit', 'seed'): {
        'compare.a': ('x', 'y'),
        'compare.b': ('z', 'u'),
    },
    # An adapter is of a pretrained model.
    'model.lora.rank': {'model.name': 'smollm2-135m'},
}


def parse(file, *argv):
  """The config of a command line, as launch.py gets it."""
  argv = ['launch.py', f'--config={file}', *argv]
  own = flags.FlagValues()
  flags.DEFINE_string('config', None, '', flag_values=own)
  config = commandline.named(argv)
  assert commandline.override(config, argv, own)[0] == argv[:1]
  return config


def as_flags(values):
  return [f'--config.{path}={value}' for path, value in values.items()]


def find(made, path):
  """The value of a config that was read at a dotted path."""
  if path.startswith('env.options.'):
    return made.env.options[path.removeprefix('env.options.')]
  return fields.get(made, path)


def other(leaf, now):
  """Another valid value of a field."""
  meaning = leaf.meaning
  tried = [meaning.example, *meaning.one_of]
  if fields.base_type(leaf.kind) is tuple:
    tried = [meaning.example, *((value,) for value in meaning.one_of)]
  if leaf.path == 'env.name':
    tried += ENVS
  elif isinstance(now, bool):
    tried.append(not now)
  elif isinstance(now, int):
    tried.append(now + 1)
  elif fields.base_type(leaf.kind) is float:
    tried += [(now or 0.0) / 2, (now or 0.0) + 1, 0.25]
  elif fields.base_type(leaf.kind) is str or 'env.options.' in leaf.path:
    tried.append('another')
  for value in tried:
    if value is None or value == now:
      continue
    try:
      fields.check(leaf.path, value, meaning)
    except ConfigError:
      continue
    return value
  raise AssertionError(f'No other value than {now!r} is known.')


@functools.cache
def known_of(mode):
  """The fields of all algorithms and environments."""
  known = dict(config_lib.leaves(mode))
  if 'algo.name' in known:
    for algo in ONLINE:
      known = config_lib.leaves(mode, algo) | known
  if 'env.name' in known:
    for env in ENVS:
      known = config_lib.leaves(mode, env=env) | known
  return known


_owners = functools.cache(build.owners)


def owners_of(leaf):
  """Names of those that have it; none of what all have."""
  path = leaf.path
  if not path.startswith(('algo.', 'env.options.')):
    return ()
  owners = _owners(path)
  everyone = ONLINE if path.startswith('algo.') else ENVS
  return () if len(owners) == len(everyone) else owners


def chooser_of(leaf):
  """The path of the name that decides whether a field with owners is there."""
  return 'algo.name' if leaf.path.startswith('algo.') else 'env.name'


class Setting:
  """The flags that set a field of a config, and what it asks for."""

  def __init__(self, config, made, leaf):
    self.config = config
    self.made = made
    self.known = known_of(config.mode)
    self.flags = {}
    self.path = leaf.path
    try:
      now = find(made, leaf.path)
    except (AttributeError, KeyError):  # of another algorithm or environment
      now = leaf.default
    self.value = other(leaf, now)
    self.set(self.path, self.value)

  def needs(self):
    """The flags, and present values without which they would be refused."""
    found = {}
    for leaf in map(self.known.get, self.flags):
      paths = [x for act in self.meaning(leaf).acts_if for x in act.witness]
      paths += [chooser_of(leaf)] * bool(owners_of(leaf))
      for path in paths:
        with contextlib.suppress(AttributeError):  # of another algorithm
          found[path] = self.now(path)
    return found | self.flags

  def set(self, path, value):
    beside = BESIDE.get(path, {}) | BESIDE.get((path, str(value)), {})
    beside = {k: x for k, x in beside.items() if k in self.known}
    self.flags = beside | self.flags | {path: value}
    self.enable(self.known[path])
    if path in ('algo.name', 'env.name'):
      self.reset(path, value)

  def enable(self, leaf):
    """Sets what a field needs to act."""
    owners = owners_of(leaf)
    if owners:
      chooser = chooser_of(leaf)
      if self.now(chooser) not in owners:
        self.set(chooser, owners[0])
    for act in self.meaning(leaf).acts_if:
      if not self.acts(act):
        for path, value in act.witness.items():
          if path not in self.flags:
            self.set(path, value)

  def meaning(self, leaf):
    """The chosen algorithm's own meaning of it, if it has it."""
    if self.config.mode == 'train':
      for item in dataclasses.fields(ONLINE[self.now('algo.name')]):
        if leaf.path == f'algo.{item.name}':
          return fields.meaning(item)
    return leaf.meaning

  def now(self, path):
    return self.flags.get(path, find(self.made, path))

  def acts(self, act):
    try:
      return act.test(self.made)
    except AttributeError:  # of another algorithm
      return False

  def reset(self, chooser, chosen):
    """Takes back what the config says of another environment."""
    if chooser == 'algo.name':  # which drops what is another's
      return
    section = 'env.options.'
    for path, leaf in self.known.items():
      owners = owners_of(leaf)
      if path.startswith(section) and owners:
        if chosen not in owners and path not in self.flags:
          place = self.config
          for name in path.split('.'):
            place = place.get(name) if place else None
          if place not in (None, leaf.default):
            self.flags[path] = None if owners[0] in ENVS else leaf.default


def read(name, *argv):
  return config_lib.read(parse(FILES[name], *argv))


def settings_of(name):
  """A setting of each field of a file's mode."""
  config = parse(FILES[name])
  made = config_lib.read(config)
  return [Setting(config, made, x) for x in known_of(config.mode).values()]


def missing(name, settings):
  """Why values are not found, by path: of one command, or else of its halves."""
  argv = as_flags({k: x for one in settings for k, x in one.flags.items()})
  try:
    made = read(name, *argv)
    found = {one: find(made, one.path) for one in settings}
    wrong = {
        one.path: f'{found[one]!r} of {argv}'
        for one in settings
        if found[one] != one.value
    }
  except Exception as error:
    wrong = {one.path: f'{error!r} of {argv}' for one in settings}
  if not wrong or len(settings) == 1:
    return wrong
  half = len(settings) // 2
  return missing(name, settings[:half]) | missing(name, settings[half:])


def together(settings):
  """Groups of settings that leave each other what they need."""
  groups = []
  for setting in settings:
    needs = setting.needs().items()
    fitting = (x for x in groups if all(x[0].get(k, v) == v for k, v in needs))
    held, group = next(fitting, ({}, []))
    if not group:
      groups.append((held, group))
    held.update(needs)
    group.append(setting)
  return [group for _, group in groups]


def check_found(name, groups):
  wrong = {}
  for group in groups:
    wrong |= missing(name, group)
  assert not wrong, '\n'.join(f'{path}: {why}' for path, why in wrong.items())


@pytest.mark.parametrize(
    'name',
    [*SINGLY, *(pytest.param(x, marks=pytest.mark.extra) for x in SIBLINGS)],
)
def test_every_field_is_a_flag_and_found_at_its_path(name):
  check_found(name, [[setting] for setting in settings_of(name)])


def test_fields_of_every_mode_are_given_singly():
  modes = [parse(FILES[name]).mode for name in SINGLY]
  assert sorted(modes) == sorted(config_lib.MODES)


@pytest.mark.parametrize('name', SIBLINGS)
def test_fields_that_are_given_together_are_found_at_their_paths(name):
  settings = settings_of(name)
  groups = together(settings)
  assert sum(map(len, groups)) == len(settings) > 2 * len(groups)
  check_found(name, groups)


@pytest.mark.parametrize('name', FILES)
def test_every_section_is_a_flag_of_values_over_its_defaults(name):
  made = read(name)
  sections = {}
  for item in dataclasses.fields(made):
    section = getattr(made, item.name)
    if not dataclasses.is_dataclass(section) or item.name == 'algo':
      continue
    # What the config has, but for one value, which is the default again.
    values = {k: v for k, v in dataclasses.asdict(section).items() if v != {}}
    dropped = next(
        (
            field.name
            for field in dataclasses.fields(section)
            if field.name in values
            and values[field.name] == fields.default(field)
        ),
        None,
    )
    values.pop(dropped, None)
    sections[item.name] = values
  found = read(name, *as_flags(sections))
  for section in sections:
    assert getattr(found, section) == getattr(made, section)


def test_a_section_then_a_field_of_it():
  made = read(
      'textcraft_grpo',
      "--config.optim={'lr': 1e-3, 'name': 'muon'}",
      '--config.optim.momentum=0.5',
  )
  # The file's weight_decay was taken back with the rest of the section.
  assert made.optim == dataclasses.replace(
      type(made.optim)(), lr=1e-3, name='muon', momentum=0.5
  )


@pytest.mark.parametrize(
    'flag, path, value',
    [
        ("--config.horizon={'turns': (4,)}", 'horizon.turns', (4,)),
        ('--config.horizon.turns=(4, 5, 6)', 'horizon.turns', (4, 5, 6)),
        ('--config.horizon.turns=4', 'horizon.turns', (4,)),
        (
            "--config.mesh.offload=('optimizer',)",
            'mesh.offload',
            ('optimizer',),
        ),
        ('--config.mesh.offload=optimizer', 'mesh.offload', ('optimizer',)),
        ('--config.env.url=http://a:1', 'env.url', 'http://a:1'),
        (
            "--config.env.url=('http://a', 'http://b')",
            'env.urls',
            ('http://a', 'http://b'),
        ),
        (
            "--config.env.options.levels=('Pickup',)",
            'env.options',
            {'levels': ('Pickup',), 'style': 'compact', 'expert_macros': True},
        ),
        ('--config.model.name=some/dir', 'model.name', 'some/dir'),
        ('--config.optim.lr=1e-5', 'optim.lr', 1e-5),
        ('--config.optim.lr=1', 'optim.lr', 1.0),
        ('--config.rollout.save_tokens=false', 'rollout.save_tokens', False),
        ('--noconfig.rollout.save_tokens', 'rollout.save_tokens', False),
        ('--config.rollout.save_tokens', 'rollout.save_tokens', True),
        ('--config.algo.kl_target=None', 'algo.kl_target', None),
        ('--config.compile_cache=', 'compile_cache', ''),
    ],
)
def test_values_are_written_as_texts(flag, path, value):
  assert fields.get(read('quickstart', flag), path) == value


def test_a_number_may_be_none():
  argv = ['--config.algo.minibatches=2', '--config.algo.value_clip=None']
  argv.append('--config.algo.name=ppo')
  assert read('textcraft_grpo', *argv).algo.value_clip is None


def test_options_of_an_environment_from_elsewhere_are_a_section():
  made = read(
      'textcraft_grpo',
      '--config.env.name=my.module:SPEC',
      "--config.env.options={'size': 3}",
  )
  assert made.env.options == {'size': 3}


@pytest.mark.parametrize(
    'flag, message',
    [
        ('num_steps=abc', "a whole number, got 'abc'"),
        ('num_steps=1e3', "a whole number, got '1e3'"),
        ('num_steps=None', "a whole number, got 'None'"),
        ('optim.lr=fast', "is a number, got 'fast'"),
        ('rollout.save_tokens=maybe', 'True or False, got .maybe'),
        ('optim=3', 'is a section with the fields lr, .* got 3'),
        ("optim={'learning_rate': 1}", 'Did you mean optim.lr'),
        ('algo.kl_target=far', 'a number or None, got .far'),
        ('horizon.turns=(1.5,)', 'a list of whole numbers, got'),
        ('optim.learning_rate=1', 'Did you mean optim.lr'),
        ('optimizer.lr=1', 'Did you mean optim'),
        ('optimizer={}', 'Did you mean optim'),
        ('algo.critic.rate=1', 'Did you mean algo.critic.lr'),
        ('optim.lr.value=1', 'optim.lr'),
        ('data.files=a.json', 'it acts in sft, agentevol'),
        ('sampler.api_key=secret', 'sampler.api_key_file'),
        ('env.options.max_depth=2', 'it acts in textcraft'),
        ('env.options.depth=2', 'no option depth; known: levels'),
    ],
)
def test_what_a_flag_cannot_say_is_refused_with_the_way_out(flag, message):
  with pytest.raises(Exception, match=message) as refused:
    read('quickstart', f'--config.{flag}')
  assert 'secret' not in str(refused.value)
