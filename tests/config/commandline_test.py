"""Tests for flags of config fields and for loading config files."""

import pytest
from absl import flags

from agentrl import config as config_lib
from agentrl.config import commandline, names
from agentrl.errors import ConfigError


def made(*words, mode='train'):
  config = config_lib.defaults(mode)
  argv = ['launch.py', *(f'--config.{word}' for word in words)]
  rest, paths = commandline.override(config, argv)
  assert rest == ['launch.py']
  return config, paths


def refused(*words, mode='train'):
  with pytest.raises(ConfigError) as error:
    made(*words, mode=mode)
  (line,) = str(error.value).splitlines()
  return line


def test_flags_of_fields_stand_between_those_of_a_program(tmp_path):
  own = flags.FlagValues()
  dry_run = flags.DEFINE_bool('dry_run', False, '', flag_values=own)
  flags.DEFINE_string('config', None, '', flag_values=own)
  (tmp_path / 'more').write_text('--config.env.options.size=3\n')
  argv = [
      'launch.py',
      '--config=x.py',
      '--config.model.name=1=2',
      '-config.num_steps',
      '3',
      'a',
      '--config.seed',
      '-1',
      '--noconfig.sampler.verify',
      '--config.rollout.save_tokens',
      '--dry_run',
      f'--flagfile={tmp_path}/more',
      '--',
      '--config.seed=1',
  ]
  config = config_lib.defaults('train')
  rest, paths = commandline.override(config, argv, own)
  assert rest == ['launch.py', 'a', '--config.seed=1'] and dry_run.value
  assert config.model.name == '1=2'
  assert config.num_steps == 3 and config.seed == -1
  assert config.sampler.verify is False
  assert config.rollout.save_tokens is True
  assert config.env.options['size'] == 3
  assert paths == {
      'model.name',
      'num_steps',
      'seed',
      'sampler.verify',
      'rollout.save_tokens',
      'env.options.size',
  }


@pytest.mark.parametrize('mode', config_lib.MODES)
def test_help_has_every_field(mode):
  own = flags.FlagValues()
  commandline.override(config_lib.defaults(mode), ['launch.py'], own)
  for path, leaf in config_lib.leaves(mode).items():
    flag = own[f'config.{path}']
    assert leaf.meaning.text in flag.help
    assert leaf.meaning.constraint in flag.help
    assert flag.boolean == (leaf.kind is bool)


@pytest.mark.parametrize(
    'path, text, value',
    [
        ('num_steps', '7', 7),
        ('optim.lr', '1e-5', 1e-5),
        ('optim.lr', '3', 3.0),
        ('optim.grad_clip', 'inf', float('inf')),
        ('sampler.verify', 'False', False),
        ('model.name', '3', '3'),
        ('model.name', '(1, 2)', '(1, 2)'),
        ('env.url', 'http://a', 'http://a'),
        ('env.url', "('a', 'b')", ('a', 'b')),
        ('env.task_file', 'None', None),
        ('algo.dual_clip', '3', 3.0),
        ('algo.dual_clip', 'None', None),
        ('horizon.turns', '6', (6,)),
        ('horizon.turns', '[3, 6]', (3, 6)),
        ('sampler.launch.devices', '1', ('1',)),
        ('sampler.launch.devices', "'1'", ('1',)),
        ('sampler.launch.flags', '--one', ('--one',)),
        ('sampler.launch.flags', "{'tp_size': 2}", {'tp_size': 2}),
        ('data.files', '/tmp/a b.json', ('/tmp/a b.json',)),
        ('env.options.levels', "('GoToLocal',)", ('GoToLocal',)),
        ('env.options.style', 'compact', 'compact'),
        ('env.options.of_my_own', '3', 3),
        ('env.options.of_my_own', "'3'", '3'),
        ('env.options.of_my_own', 'true', True),
    ],
)
def test_a_flag_is_read_as_the_type_of_its_field(path, text, value):
  mode = 'sft' if path.startswith('data.') else 'train'
  config, paths = made(f'{path}={text}', mode=mode)
  for part in path.split('.'):
    config = config[part]
  assert config == value and type(config) is type(value)
  assert paths == {path}


def test_a_section_is_over_its_defaults_whatever_the_order():
  words = (
      'optim.weight_decay=0.1',
      "optim={'lr': 1, 'name': 'muon'}",
      "algo={'name': 'ppo', 'critic': {'lr': 1}}",
      "env.options={'levels': ('GoToLocal',)}",
      'env.name=babyai',
  )
  for order in (words, words[::-1]):
    config, paths = made(*order)
    assert paths == {word.partition('=')[0] for word in order}
    wanted = config_lib.read(config)
    optim = wanted.optim
    assert (optim.lr, optim.name, optim.weight_decay) == (1.0, 'muon', 0.1)
    assert wanted.algo.critic.lr == 1.0 and wanted.algo.critic.kind == 'own'
    assert wanted.env.options['levels'] == ('GoToLocal',)
  config = config_lib.defaults('train')
  config.optim.lr = 0.5  # of a config file
  commandline.override(config, ['', "--config.optim={'b1': 0.8}"])
  assert config.optim.lr == 1e-6


@pytest.mark.parametrize(
    'word, said',
    [
        ('num_steps=abc', "num_steps is a whole number, got 'abc'."),
        ('num_steps=1e3', "num_steps is a whole number, got '1e3'."),
        ('num_steps=None', "num_steps is a whole number, got 'None'."),
        ('num_steps=(1, 2)', "num_steps is a whole number, got '(1, 2)'."),
        ('optim.lr=fast', "optim.lr is a number, got 'fast'."),
        ("optim.lr={'a': 1}", 'optim.lr is a number, got "{'),
        ('algo.dual_clip=x', "is a number or None, got 'x'"),
        ('sampler.verify=maybe', "is True or False, got 'maybe'"),
        ('horizon.turns=1.5', "is a list of whole numbers, got '1.5'"),
        ('horizon.turns=(1', "is a list of whole numbers, got '(1'"),
        ('mesh.offload=(a,b)', "got '(a,b)'; a list is written as in ("),
        ('optim=3', 'optim is a section with the fields lr, name, '),
        ('optim=3', 'simulated_s, got 3.'),
        ("optim={'lr': 'x'}", "optim.lr is a number, got 'x'"),
        ("optim={'lr': None}", 'optim.lr is a number, got None'),
        (
            "algo={'critic': 3}",
            "algo.critic has no effect with algo.name='grpo'",
        ),
        ('env.options=3', 'env.options is a section'),
        ('mode=fly', "Unknown mode 'fly'; known: train, "),
        ('mode=sft', "of mode='train'; name one of mode='sft'"),
        ('optim.lrr=1', 'Unknown field optim.lrr. Did you mean optim.lr?'),
        ("optim={'lrr': 1}", 'Unknown field optim.lrr. Did you mean optim.lr?'),
        ('optim.lr.x=1', 'Unknown field optim.lr.x: optim.lr is a number'),
        ('algo.critic.lrr=1', 'Did you mean algo.critic.lr?'),
        ('algo.kl=1', 'Did you mean algo.kl_coef?'),
        ('nosection.x=1', 'known sections: agent, algo, '),
        ('data.files=x', "data.files has no effect with mode='train'; it acts"),
        ('env.options.a.b=1', 'Unknown field env.options.a.b'),
        ("env.options={'a.b': 1}", 'Unknown field env.options.a.b'),
        ('optim={[]: 1}', 'optim is a section: a dict as Python writes it.'),
    ],
)
def test_what_a_flag_cannot_be_is_one_line_with_the_way_out(word, said):
  assert said in refused(word)


@pytest.mark.parametrize('word', ['optim.lr', 'model.name', 'optim'])
def test_a_flag_without_its_value_is_refused(word):
  with pytest.raises(flags.Error, match=f'Missing value .*{word}'):
    made(word)
  line = refused(word, 'sampler.api_key_file=k0k0')
  assert f'write --config.{word}=VALUE' in line and 'k0k0' not in line
  with pytest.raises(flags.Error, match=f'Unknown .*noconfig.{word}'):
    commandline.override(
        config_lib.defaults('train'), ['', f'--noconfig.{word}']
    )


def test_two_values_are_refused_and_the_same_one_is_not():
  assert '1.0 and 2.0: leave one out.' in refused('optim.lr=1', 'optim.lr=2')
  assert '2.0 and 1.0' in refused('optim.lr=1', "optim={'lr': 2}")
  lists = refused('horizon.turns=3', 'horizon.turns=6')
  assert '(3,) and (6,): leave one out, or give the whole list.' in lists
  config, _ = made('optim.lr=1', 'optim.lr=1.0', 'optim.lr=1e0')
  assert config.optim.lr == 1.0
  assert made('optim.lr=nan')[1] == {'optim.lr'}  # `read` refuses it


@pytest.mark.parametrize(
    'words',
    [
        ('sampler.api_key=k0k0',),
        ('sampler.api_key=k0k0', 'sampler.api_key=k1k1'),
        ('num_steps=abc', 'sampler.api_key=k0k0'),
        ("sampler={'api_key': 'k0k0'}",),
        ("sampler={'timeout_s': 'x', 'api_key': 'k0k0'}",),
    ],
)
def test_a_key_is_refused_and_shown_nowhere(words):
  line = refused(*words)
  assert 'sampler.api_key_file' in line and 'k0k0' not in line


def test_a_dict_that_is_none_is_not_shown_as_it_may_hold_a_key():
  line = refused("sampler={'api_key': 'k0k0'")
  assert 'a dict as Python writes it' in line and 'k0k0' not in line


def test_an_old_name_is_refused_with_the_new_one(monkeypatch):
  monkeypatch.setattr(names, 'RENAMED', {'optim.rate': 'optim.lr'})
  assert refused('optim.rate=1') == 'optim.rate is called optim.lr now.'


START = 'from agentrl.config import defaults\n'


@pytest.mark.parametrize(
    'text, said',
    [
        ('def get_config()\n  return 3\n', "SyntaxError: expected ':' ("),
        ('import nosuchmodule\n', 'line 1: ModuleNotFoundError: No module na'),
        ('x = 3\n', "AttributeError: module 'config_file' has no attribute"),
        ('def get_config():\n  return {}["x"]\n', "line 2: KeyError: 'x'"),
        ('def get_config():\n  raise ValueError("a\\nb")\n', 'line 2: b'),
        ('def get_config():\n  return 3\n', 'Unknown mode None; known: train'),
        (
            (
                'from ml_collections import ConfigDict\n'
                'get_config = lambda: ConfigDict(dict(mode="train"))\n'
            ),
            "begins with config = defaults('train')",
        ),
        (
            f'{START}def get_config():\n  defaults("train").optim.lrr = 3\n',
            'line 3: Unknown field optim.lrr. Did you mean optim.lr?',
        ),
        (
            (
                f'{START}def get_config():\n  c = defaults("train")\n'
                '  c.optim = dict(lrr=3)\n'
            ),
            'line 4: Unknown field optim.lrr. Did you mean optim.lr?',
        ),
    ],
)
def test_a_config_file_that_fails_names_its_line(tmp_path, text, said):
  path = tmp_path / 'mine.py'
  path.write_text(text)
  with pytest.raises(ConfigError) as error:
    commandline.load(str(path))
  (line,) = str(error.value).splitlines()
  assert said in line
  assert str(path) in line or 'Unknown mode' in line


def test_a_config_file_that_is_not_there():
  with pytest.raises(ConfigError, match="no config file 'no.py'; --help lists"):
    commandline.load('no.py:tiny')


def test_an_argument_follows_the_first_colon(tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text(
      f'{START}def get_config(arg="none"):\n'
      '  config = defaults("train")\n  config.model.name = arg\n'
      '  return config\n'
  )
  assert commandline.load(f'{path}:a:b').model.name == 'a:b'
  assert commandline.load(f'{path}').model.name == 'none'


def test_a_config_that_comes_along_is_found_from_any_folder(
    tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  assert commandline.load('configs/quickstart.py:tiny').num_steps == 2
  (tmp_path / 'configs').mkdir()
  mine = tmp_path / 'configs' / 'quickstart.py'
  mine.write_text(
      'from agentrl.config import defaults\n'
      'def get_config():\n'
      '  config = defaults("train")\n'
      '  config.num_steps = 7\n'
      '  return config\n'
  )
  assert commandline.load('configs/quickstart.py').num_steps == 7
