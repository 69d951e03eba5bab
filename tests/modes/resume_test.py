"""Tests for agentrl.modes.resume."""

import dataclasses
import json

import pytest

from agentrl.errors import CheckpointError
from agentrl.models import variants
from agentrl.models.config import SLIDING
from agentrl.modes import resume
from tests import tiny

CONFIG = tiny.CONFIG


def kept(config):
  """As a checkpoint has it."""
  return json.loads(json.dumps(dataclasses.asdict(config)))


@pytest.mark.parametrize('name', ['tiny-1m', 'gemma3-1b', 'llama3.2-1b'])
def test_a_model_goes_on_from_its_own_checkpoint(name):
  config = variants.get(name)
  resume.check_model(kept(config), config, 'It')
  # Fields that came after a checkpoint have the values of before.
  old = kept(CONFIG)
  del old['num_experts'], old['hidden_act']
  resume.check_model(old, CONFIG, 'It')


@pytest.mark.parametrize(
    'changes, said',
    [
        (
            dict(num_layers=CONFIG.num_layers + 1),
            f'num_layers={CONFIG.num_layers},',
        ),
        # The arrays of these would fit.
        (dict(rope_theta=5e5), 'rope_theta=10000.0, .* 500000.0'),
        (
            dict(layer_types=(SLIDING,) * CONFIG.num_layers, sliding_window=8),
            'sliding_window=None, .* 8',
        ),
    ],
)
def test_a_checkpoint_of_another_architecture_is_refused(changes, said):
  with pytest.raises(CheckpointError, match=f'^It is of .*{said}.*--workdir'):
    resume.check_model(
        kept(CONFIG), dataclasses.replace(CONFIG, **changes), 'It'
    )
