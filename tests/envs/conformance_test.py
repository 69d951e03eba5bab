"""Every environment against the conformance suite.

Invariant 10, that an environment is a pure function of (task_id, seed, actions),
is checked across processes with other hash seeds and shuffled directory
listings, and across machines by the digests in `conformance.CASES`.
"""

import asyncio

import pytest

from agentrl import envs
from tests.envs import conformance, packages

ALL = [
    packages.param(
        name, *([getattr(pytest.mark, case.mark)] if case.mark else [])
    )
    for name, case in conformance.CASES.items()
]


def test_every_environment_has_a_case():
  # A program of a user's has neither an expert nor actions that another knows, and
  # transcripts of others' servers are as their own code makes them.
  others = {'openenv', 'program', 'verifiers', *envs.AGENTGYM}
  assert {*conformance.CASES} == envs.ENVS.keys() - others


@pytest.mark.parametrize('check', conformance.CHECKS)
@pytest.mark.parametrize('env_name', ALL)
def test_conforms(env_name, check):
  asyncio.run(conformance.CHECKS[check](conformance.CASES[env_name]))


@pytest.mark.parametrize('env_name', ALL)
def test_transcripts_are_equal_everywhere(env_name):
  case = conformance.CASES[env_name]
  first = conformance.transcripts(case, hash_seed='1')
  assert conformance.transcripts(case, hash_seed='2') == first
  assert conformance.digest(first) == case.digest
