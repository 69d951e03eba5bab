"""Tests for agentrl.runtime.ranks."""

import pytest

from agentrl.errors import ConfigError
from agentrl.runtime import ranks
from agentrl.runtime.ranks import Rank

TORCHRUN = dict(
    RANK='1', WORLD_SIZE='4', MASTER_ADDR='10.0.0.1', MASTER_PORT='1234'
)
POD = dict(WORLD_SIZE='4', MASTER_ADDR='run-trainer-0-0.run')
# Job 77: port 61440 + 77.
SRUN = dict(
    SLURM_JOB_ID='77',
    SLURM_STEP_NUM_TASKS='2',
    SLURM_STEP_TASKS_PER_NODE='1(x2)',
    SLURM_STEP_NODELIST='gpu[003-006,9],login1',
    SLURM_PROCID='1',
    SLURM_LOCALID='0',
    SLURM_NODEID='1',
)
TWO_A_NODE = dict(
    SRUN,
    SLURM_STEP_NUM_TASKS='5',
    SLURM_STEP_TASKS_PER_NODE='2(x2),1',
    SLURM_PROCID='3',
    SLURM_LOCALID='1',
)
# Job 1531576320 / 4096 = 373920, and 61440 + 373920 % 4096 = 62624.
MPIRUN = dict(
    OMPI_COMM_WORLD_SIZE='2',
    OMPI_COMM_WORLD_RANK='1',
    OMPI_COMM_WORLD_LOCAL_RANK='1',
    OMPI_MCA_orte_hnp_uri='1531576320.0;tcp://10.96.0.1,10.148.0.1:34911',
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
        # A pod of an indexed Job.
        (
            dict(POD, JOB_COMPLETION_INDEX='3'),
            Rank(4, 3, 'run-trainer-0-0.run:29500'),
        ),
        # RANK is that of all jobs of a JobSet, the pod's number of its own.
        (
            dict(POD, RANK='2', JOB_COMPLETION_INDEX='0'),
            Rank(4, 2, 'run-trainer-0-0.run:29500'),
        ),
        ({'JOB_COMPLETION_INDEX': '3'}, Rank()),
        # Alone on its machine: all devices there.
        (SRUN, Rank(2, 1, 'gpu003:61517')),
        (
            dict(SRUN, MASTER_ADDR='10.0.0.1', MASTER_PORT='77'),
            Rank(2, 1, '10.0.0.1:77'),
        ),
        (
            dict(SRUN, SLURM_STEP_NODELIST='gpu[09,11],cpu1'),
            Rank(2, 1, 'gpu09:61517'),
        ),
        (
            dict(SRUN, SLURM_STEP_NODELIST='login1,gpu[09,11]'),
            Rank(2, 1, 'login1:61517'),
        ),
        # Several on a machine have a device each, unless Slurm bound one.
        (TWO_A_NODE, Rank(5, 3, 'gpu003:61517', 1)),
        (
            dict(TWO_A_NODE, CUDA_VISIBLE_DEVICES='1'),
            Rank(5, 3, 'gpu003:61517'),
        ),
        (
            dict(TWO_A_NODE, CUDA_VISIBLE_DEVICES='0,1'),
            Rank(5, 3, 'gpu003:61517', 1),
        ),
        (
            dict(TWO_A_NODE, SLURM_PROCID='4', SLURM_NODEID='2'),
            Rank(5, 4, 'gpu003:61517'),
        ),
        # A batch script that starts one process of an allocation of eight.
        (dict(SLURM_NTASKS='8', SLURM_PROCID='0'), Rank()),
        # torchrun, started by srun on each of two machines.
        (
            dict(TORCHRUN, **SRUN, LOCAL_RANK='0', LOCAL_WORLD_SIZE='2'),
            Rank(4, 1, '10.0.0.1:1234', 0),
        ),
        (MPIRUN, Rank(2, 1, '10.96.0.1:62624')),
        (
            dict(MPIRUN, OMPI_COMM_WORLD_LOCAL_SIZE='2'),
            Rank(2, 1, '10.96.0.1:62624', 1),
        ),
        (
            dict(MPIRUN, OMPI_MCA_orte_hnp_uri='', MASTER_ADDR='host0'),
            Rank(2, 1, 'host0:29500'),
        ),
    ],
)
def test_the_launcher_says_who_we_are(environ, rank):
  assert ranks.find(environ) == rank


@pytest.mark.parametrize(
    'environ, message',
    [
        (dict(WORLD_SIZE='2'), 'but RANK is not set; set RANK .0 to 1.'),
        (dict(RANK='1'), 'RANK=1 is set and WORLD_SIZE is not'),
        (dict(WORLD_SIZE='0'), 'WORLD_SIZE=0 is no number of processes'),
        (dict(TORCHRUN, MASTER_ADDR=''), 'but MASTER_ADDR is not set'),
        (dict(TORCHRUN, MASTER_PORT='70000'), 'MASTER_PORT=70000 is no port'),
        (
            dict(POD, JOB_COMPLETION_INDEX='4'),
            'JOB_COMPLETION_INDEX=4 is not below WORLD_SIZE=4',
        ),
        (
            dict(SRUN, SLURM_STEP_TASKS_PER_NODE='two'),
            "SLURM_STEP_TASKS_PER_NODE='two' is no list such as",
        ),
        (dict(SRUN, SLURM_NODEID='2'), 'SLURM_NODEID=2 is not in SLURM_STEP'),
        (dict(SRUN, SLURM_PROCID=''), 'but SLURM_PROCID is not set'),
        (dict(SRUN, SLURM_STEP_NODELIST=''), 'but MASTER_ADDR is not set'),
        (dict(MPIRUN, OMPI_MCA_orte_hnp_uri=''), 'MASTER_ADDR is not set; set'),
        (
            dict(SRUN, WORLD_SIZE='1', RANK='0'),
            'WORLD_SIZE=1 contradicts SLURM_STEP_NUM_TASKS=2',
        ),
        (
            dict(SRUN, WORLD_SIZE='2', RANK='0', MASTER_ADDR='gpu003'),
            'RANK=0 contradicts SLURM_PROCID=1: is it exported for all',
        ),
        (dict(TORCHRUN, RANK='4'), 'RANK=4 is not below WORLD_SIZE=4'),
        (dict(TORCHRUN, WORLD_SIZE='many'), "WORLD_SIZE='many' is not a num"),
    ],
)
def test_half_an_answer_is_refused(environ, message):
  with pytest.raises(ConfigError, match=message):
    ranks.find(environ)
