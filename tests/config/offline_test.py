"""Tests for what configs of modes 'sft', 'dpo' and 'agentevol' may and may not say."""

import re

import pytest

from configs import babyai_agentevol, babyai_dpo, babyai_sft
from tests.config.refusals import refusal

TINY = {'sft': babyai_sft, 'dpo': babyai_dpo, 'agentevol': babyai_agentevol}


@pytest.mark.parametrize(
    'mode, fields, message',
    [
        ('sft', {'data.expert_episodes': 0}, 'nothing to learn from'),
        ('sft', {'data.files': 'x.json'}, r"a list .*'x.json'.*\('a.json',\)"),
        ('sft', {'data.own_opening': True}, 'data.files is empty'),
        ('sft', {'data.min_return': 1.0}, 'data.files is empty'),
        (
            'sft',
            {'data': dict(files=('x.json',), expert_horizon=3)},
            'expert_horizon=3 has no effect: data.expert_episodes is 0',
        ),
        ('sft', {'algo.epochs': 0}, 'algo.epochs must be at least 1'),
        ('sft', {'algo.heldout': 1.0}, 'heldout must be below 1, got 1.0'),
        ('sft', {'algo.warmup': 1.5}, 'warmup must be at most 1, got 1.5'),
        ('sft', {'algo.clip_high': 0.3}, "mode='sft'; it acts in train"),
        ('sft', {'algo.gamma': 0.9}, "mode='sft'; it acts in"),
        ('sft', {'algo.beta': 0.1}, "mode='sft'; it acts in dpo"),
        (
            'sft',
            {'algo': dict(heldout=0.0, validate_every=3)},
            'validate_every=3 has no effect: algo.heldout is 0',
        ),
        ('sft', {'algo.speed': 1}, 'Unknown field algo.speed'),
        ('sft', {'eval.every': 5}, 'eval.every has no effect'),
        (
            'sft',
            {'checkpoint.keep_best': True},
            "mode='sft'; it acts in train, agentevol",
        ),
        (
            'agentevol',
            {'checkpoint.keep_best': True, 'eval.num_tasks': 0},
            'keep_best=True has no effect: eval.num_tasks is 0',
        ),
        ('sft', {'optim.warmup_steps': 5}, 'Set algo.warmup'),
        ('sft', {'rollout.temperature': 0.5}, "mode='sft'; it acts in train"),
        (
            'dpo',
            {'mesh.offload': ('reference',)},
            "Unknown mesh.offload='reference'; known: optimizer",
        ),
        ('dpo', {'algo.loss': 'kto'}, "'kto'; known: sigmoid, hinge, ipo"),
        ('dpo', {'algo.beta': 0.0}, 'algo.beta must be above 0'),
        ('dpo', {'algo.nll_coef': -1.0}, 'algo.nll_coef must be at least 0'),
        ('dpo', {'algo.label_smoothing': 0.5}, 'below 0.5, got 0.5'),
        (
            'dpo',
            {'algo.loss': 'ipo', 'algo.label_smoothing': 0.1},
            "acts with algo.loss='sigmoid'",
        ),
        ('dpo', {'algo.heldout': 0.1}, "mode='dpo'; it acts in sft"),
        ('dpo', {'optim.warmup_steps': 5}, 'Set algo.warmup'),
        ('dpo', {'pairs.files': ('x',)}, 'one of the two'),
        (
            'dpo',
            {'pairs.with_expert': False, 'explore.tasks': 0},
            'one of the two',
        ),
        ('dpo', {'explore.tasks': 0}, 'explore.tasks is 0'),
        ('dpo', {'pairs.gap': 0.0}, 'pairs.gap must be above 0'),
        ('dpo', {'pairs.own_opening': True}, 'pairs.files is empty'),
        (
            'dpo',
            {'pairs': dict(with_expert=True, files=('x',)), 'explore.tasks': 0},
            'with_expert=True has no effect: explore.tasks is 0',
        ),
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
        ('agentevol', {'eval.every': 5}, 'agentevol after each round'),
    ],
)
def test_what_cannot_act_or_be_is_refused_with_the_reason(
    mode, fields, message
):
  assert re.search(message, refusal(TINY[mode].get_config('tiny'), fields))
