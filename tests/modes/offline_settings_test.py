"""Tests for agentrl.modes.offline_settings: what sft, dpo, agentevol may say."""

import json

import pytest

from agentrl.errors import ConfigError
from agentrl.modes import offline_settings
from configs import (
    babyai_agentevol,
    babyai_dpo,
    babyai_sft,
    textcraft_agentevol,
    textcraft_dpo,
    textcraft_sft,
)

READ = {
    'sft': offline_settings.read_sft,
    'dpo': offline_settings.read_dpo,
    'agentevol': offline_settings.read_agentevol,
}
TINY = {'sft': babyai_sft, 'dpo': babyai_dpo, 'agentevol': babyai_agentevol}


@pytest.mark.parametrize(
    'module',
    [*TINY.values(), textcraft_sft, textcraft_dpo, textcraft_agentevol],
)
@pytest.mark.parametrize(
    'arg', [None, 'tiny', 'data=x.json', 'tiny,model=smollm2-135m']
)
def test_configs_build_and_every_field_is_known(module, arg):
  config = module.get_config(arg)
  config.lock()
  wanted = READ[config.mode](config)
  assert wanted.seed == config.seed
  assert config.mode == module.__name__.rpartition('_')[2]


@pytest.mark.parametrize(
    'began, style', [('tiny-1m', 'compact'), ('smollm2-135m', 'full')]
)
def test_a_run_goes_on_in_the_style_that_it_learnt(tmp_path, began, style):
  for name, model in (('sft', began), ('dpo', str(tmp_path / 'sft'))):
    (tmp_path / name / 'checkpoints').mkdir(parents=True)
    (tmp_path / name / 'config.json').write_text(
        json.dumps(dict(model=dict(name=model)))
    )
  for run in ('sft', 'dpo'):
    config = babyai_dpo.get_config(f'model={tmp_path / run}')
    assert config.agent.instructions == style
    assert config.warmstart.episodes == 0
    READ['dpo'](config)


@pytest.mark.parametrize(
    'mode, fields, message',
    [
        ('sft', {'data.expert_episodes': 0}, 'nothing to learn from'),
        ('sft', {'data.files': 'x.json'}, "a list of files.*'x.json'"),
        ('sft', {'data.own_opening': True}, 'data.files is empty'),
        ('sft', {'data.min_return': 1.0}, 'data.files is empty'),
        ('sft', {'algo.epochs': 0}, 'algo.epochs must be at least 1'),
        ('sft', {'algo.heldout': 1.0}, 'a share below 1, got 1.0'),
        ('sft', {'algo.warmup': 1.5}, 'a share, got 1.5'),
        ('sft', {'algo.clip_high': 0.3}, "mode='sft'; it acts in grpo"),
        ('sft', {'algo.gamma': 0.9}, "mode='sft'; it acts in"),
        ('sft', {'algo.beta': 0.1}, "mode='sft'; it acts in dpo"),
        ('sft', {'algo.speed': 1}, 'Unknown field algo.speed'),
        ('sft', {'eval.every': 5}, 'eval.every=5 has no effect'),
        ('sft', {'optim.warmup_steps': 5}, 'Set algo.warmup'),
        ('dpo', {'mesh.offload': ('reference',)}, 'keeps no reference'),
        ('dpo', {'algo.loss': 'kto'}, "'kto'; known: sigmoid, hinge, ipo"),
        ('dpo', {'algo.beta': 0.0}, 'algo.beta must be above 0'),
        ('dpo', {'algo.nll_coef': -1.0}, 'algo.nll_coef must be at least 0'),
        ('dpo', {'algo.label_smoothing': 0.5}, 'below 0.5, got 0.5'),
        (
            'dpo',
            {'algo.loss': 'ipo', 'algo.label_smoothing': 0.1},
            "acts in 'sigmoid'",
        ),
        ('dpo', {'algo.heldout': 0.1}, "mode='dpo'; it acts in sft"),
        ('dpo', {'pairs.files': ('x',)}, 'one of the two'),
        ('dpo', {'explore.tasks': 0}, 'one of the two'),
        ('dpo', {'pairs.gap': 0.0}, 'pairs.gap must be above 0'),
        ('dpo', {'pairs.own_opening': True}, 'pairs.files is empty'),
        (
            'dpo',
            {'pairs.with_expert': False, 'explore.samples': 1},
            'explore.samples=1 makes none',
        ),
        ('dpo', {'warmstart.episodes': 0}, 'warmstart.episodes'),
        ('agentevol', {'num_steps': 0}, 'num_steps must be at least 1'),
        ('agentevol', {'explore.tasks': 0}, 'explore.tasks must be at least 1'),
        ('agentevol', {'checkpoint.every': 3}, 'each round is saved'),
        ('agentevol', {'algo.weighting': 'square'}, 'known: equal, return'),
        (
            'agentevol',
            {'algo.weighting': 'return', 'algo.threshold': -1.0},
            'at least 0',
        ),
        ('agentevol', {'explore.temperature': 0.0}, 'must be above 0'),
        ('agentevol', {'algo.beta': 0.1}, "mode='agentevol'; it acts in dpo"),
    ],
)
def test_what_cannot_act_or_be_is_refused_with_the_reason(
    mode, fields, message
):
  config = TINY[mode].get_config('tiny')
  for path, value in fields.items():
    section, _, name = path.rpartition('.')
    target = config[section] if section else config
    if name in target:
      with target.ignore_type():
        target[name] = value
    else:
      target[name] = value
  with pytest.raises(ConfigError, match=message):
    READ[mode](config)


def test_the_warm_up_is_a_share_of_the_updates():
  wanted = offline_settings.read_sft(babyai_sft.get_config('tiny'))
  optim = wanted.algo.with_warmup(wanted.optim, 45)
  assert optim.warmup_steps == 5 and optim.lr == wanted.optim.lr
