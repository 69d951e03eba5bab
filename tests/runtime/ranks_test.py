"""Tests for agentrl.runtime.ranks."""

import pytest

from agentrl.errors import ConfigError
from agentrl.runtime import ranks
from agentrl.runtime.ranks import Rank

TORCHRUN = dict(
    RANK='1', WORLD_SIZE='4', MASTER_ADDR='10.0.0.1', MASTER_PORT='1234'
)


@pytest.mark.parametrize(
    'environ, rank',
    [
        ({}, Rank()),
        (dict(TORCHRUN, WORLD_SIZE='1', RANK='0'), Rank()),
        (TORCHRUN, Rank(4, 1, '10.0.0.1:1234')),
        (
            {k: v for k, v in TORCHRUN.items() if k != 'MASTER_PORT'},
            Rank(4, 1, '10.0.0.1:29500'),
        ),
        # One process a device, and one a machine.
        (
            dict(TORCHRUN, LOCAL_RANK='1', LOCAL_WORLD_SIZE='2'),
            Rank(4, 1, '10.0.0.1:1234', 1),
        ),
        (
            dict(TORCHRUN, LOCAL_RANK='0', LOCAL_WORLD_SIZE='1'),
            Rank(4, 1, '10.0.0.1:1234'),
        ),
        (dict(SLURM_STEP_NUM_TASKS='2', SLURM_PROCID='0'), Rank(2)),
        # A batch script that starts one process of an allocation of eight.
        (dict(SLURM_NTASKS='8', SLURM_PROCID='0'), Rank()),
        (dict(OMPI_COMM_WORLD_SIZE='2', OMPI_COMM_WORLD_RANK='1'), Rank(2)),
    ],
)
def test_the_launcher_says_who_we_are(environ, rank):
  assert ranks.find(environ) == rank


@pytest.mark.parametrize(
    'environ, message',
    [
        (dict(WORLD_SIZE='2'), 'RANK and MASTER_ADDR is not set; set RANK'),
        (dict(TORCHRUN, MASTER_ADDR=''), 'but MASTER_ADDR is not set'),
        (dict(TORCHRUN, RANK='4'), 'RANK=4 is not below WORLD_SIZE=4'),
        (dict(TORCHRUN, WORLD_SIZE='many'), "WORLD_SIZE='many' is not a num"),
    ],
)
def test_half_an_answer_is_refused(environ, message):
  with pytest.raises(ConfigError, match=message):
    ranks.find(environ)
