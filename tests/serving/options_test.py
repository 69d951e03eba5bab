"""Tests for agentrl.serving.options: `config.sampler`, and what contradicts itself."""

import re

import pytest

from agentrl.config import defaults, read
from agentrl.errors import ConfigError
from agentrl.serving.options import Launch, SamplerOptions
from configs import evaluate, quickstart, textcraft_grpo, textcraft_sft
from tests.config.refusals import refusal

LOCAL = ('http://127.0.0.1:30000', 'http://localhost:30001')
REMOTE = ('http://gpu7:30000',)


def said(**fields):
  return refusal(defaults('train'), {'sampler': fields})


def sglang(**fields):
  config = defaults('train')
  config.sampler = dict(kind='sglang', **fields)
  return read(config).sampler


@pytest.mark.parametrize(
    'module', [evaluate, quickstart, textcraft_grpo, textcraft_sft]
)
def test_configs_have_the_embedded_engine_and_room_for_servers(module):
  config = module.get_config()
  assert read(config).sampler.kind == 'embedded'
  section = config.sampler
  section.kind = 'sglang'
  section.launch.python = '/opt/sglang/bin/python'
  section.launch.flags = ('--tp-size', '2')
  section.launch.devices = ('1,2',)
  section.push = 'drain'
  assert read(config).sampler.launch == Launch(
      python='/opt/sglang/bin/python',
      flags=('--tp-size', '2'),
      devices=('1,2',),
  )


def test_servers_are_urls_a_router_or_children():
  assert sglang(urls=LOCAL).local
  assert not sglang(urls=REMOTE, push_dir='/shared').local
  routed = sglang(router='http://127.0.0.1:1', push_dir='/shared')
  assert routed.launch.python is None
  launched = sglang(launch=dict(python='py', replicas=2))
  assert launched.local and launched.launch.replicas == 2


@pytest.mark.parametrize(
    'flags, words',
    [
        ((), ()),
        (('--tp-size', '2'), ('--tp-size', '2')),
        (
            {'tp_size': 2, 'enable_metrics': True, 'x': None, 'y': False},
            ('--tp-size', '2', '--enable-metrics'),
        ),
        (
            {'cuda_graph_bs': (1, 2), 'mem_fraction_static': 0.5},
            ('--cuda-graph-bs', '1', '2', '--mem-fraction-static', '0.5'),
        ),
        ({}, ()),
    ],
)
def test_flags_are_words_or_a_dict(flags, words):
  launched = sglang(launch=dict(python='py', flags=flags)).launch
  assert launched.words == words


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(), 'needs one of sampler.urls.*got none'),
        (dict(urls=LOCAL, launch=dict(python='p')), 'got urls and launch'),
        (dict(urls=LOCAL, router='http://r'), 'got urls and router'),
        (dict(urls=REMOTE), 'sampler.push_dir is missing'),
        (dict(router='http://127.0.0.1:1'), 'sampler.push_dir is missing'),
        (dict(urls='http://a'), r"'http://a'; a list is .* as in \('http"),
        (dict(urls=('gpu1:30000',), push_dir='d'), 'is like http://host'),
        (dict(urls=('http://a:x',), push_dir='d'), "urls has 'http://a:x'"),
        (dict(router='gpu1', push_dir='d'), "sampler.router has 'gpu1'"),
        (dict(urls=LOCAL, slots=9), 'slots=9 has no effect'),
        (dict(urls=LOCAL, slots=99), 'slots=99 has no effect'),
        (
            dict(urls=LOCAL, deterministic=True),
            'enable-deterministic-inference',
        ),
        (dict(urls=LOCAL, push='hope'), 'known: retract, drain, abort'),
        (dict(urls=LOCAL, push='abort', max_attempts=1), 'use at least 2'),
        (dict(urls=LOCAL, shard_bytes=0), 'shard_bytes must be at least 1'),
        (
            dict(launch=dict(python='p'), api_key_file='k'),
            'loopback only',
        ),
        (dict(launch=dict(replicas=2)), 'sampler.launch.python .*got none'),
        (
            dict(urls=LOCAL, launch=dict(replicas=2)),
            'without sampler.launch.python',
        ),
        (
            dict(launch=dict(python='p', replica=2)),
            'launch.replica. Did you mean sampler.launch.replicas?',
        ),
        (dict(launch=dict(python='p', replicas=0)), 'replicas must be at'),
        (dict(launch=dict(python='p', port=65536)), 'is no port'),
        (dict(launch=dict(python='p', devices=('0', '1'))), 'has 2 entries'),
        (
            dict(launch=dict(python='p', flags='--tp-size 2')),
            r"'--tp-size 2'; a list is written as in \('--tp-size', '2'\)",
        ),
        (
            dict(launch=dict(python='p', flags=('--port=3',))),
            'which the run sets itself',
        ),
        (
            dict(launch=dict(python='p', flags=('--api-key', 'k'))),
            'listens on loopback only',
        ),
        (
            dict(launch=dict(python='p', flags={'model_path': 'x'})),
            "'--model-path', which the run",
        ),
        (dict(urls=LOCAL, push_lora=True), 'model.lora.rank'),
    ],
)
def test_contradictions_are_refused_with_the_way_out(fields, message):
  assert re.search(message, said(kind='sglang', **fields))


@pytest.mark.parametrize(
    'fields',
    [
        dict(urls=LOCAL),
        dict(router='http://r'),
        dict(launch=dict(python='p')),
        dict(push_dir='/shared'),
        dict(push='drain'),
        dict(verify=False),
        dict(shard_bytes=5),
        dict(api_key_file='k'),
        dict(admin_key_file='k'),
    ],
)
def test_what_is_about_servers_has_no_effect_without(fields):
  name = next(iter(fields))
  assert re.search(f'sampler.{name}.*no effect.*sglang', said(**fields))


def test_more_sequences_than_slots_are_refused():
  assert 'slots=9 are fewer' in said(slots=9)


@pytest.mark.parametrize(
    'slots, episodes, expected',
    [
        (0, None, 14),
        (9, None, 9),
        (9, 4, 9),
        (0, 1, 1),
        (0, 4, 5),
        (0, 8, 10),
        (0, 100, 14),
    ],
)
def test_the_cache_holds_the_episodes_at_a_time(slots, episodes, expected):
  options = SamplerOptions(max_running=7, slots=slots)
  assert options.num_slots(episodes) == expected


@pytest.mark.parametrize(
    'episodes, deterministic, expected',
    [(None, False, 7), (4, False, 4), (4, True, 7), (9, False, 7)],
)
def test_no_more_rows_decode_than_there_are_episodes(
    episodes, deterministic, expected
):
  options = SamplerOptions(max_running=7, deterministic=deterministic)
  assert options.num_running(episodes) == expected
  assert options.num_slots(episodes) >= expected


@pytest.mark.parametrize('name', ['api_key', 'admin_key'])
def test_a_key_itself_is_refused_and_not_shown(name):
  found = said(kind='sglang', urls=LOCAL, **{name: 'secret'})
  assert f'sampler.{name}_file' in found and 'AGENTRL_SAMPLER_' in found
  assert 'secret' not in found


def test_a_key_among_the_flags_of_a_server_is_not_shown():
  launch = dict(python='p', flags=('--admin-api-key=secret',))
  found = said(kind='sglang', launch=launch)
  assert '--admin-api-key' in found
  assert 'secret' not in found


@pytest.mark.parametrize(
    'flags', [('--dtype', 'bfloat16'), ('--dtype=half',), {'dtype': 'nonsense'}]
)
def test_servers_that_compute_in_another_type_are_refused(flags):
  with pytest.raises(ConfigError, match="flags has --dtype .* model.dtype='fl"):
    sglang(launch=dict(python='p', flags=flags))


@pytest.mark.parametrize('flags', [(), ('--dtype', 'auto'), ('--dtype=float',)])
def test_servers_that_compute_in_the_trainers_type_will_do(flags):
  assert sglang(launch=dict(python='p', flags=flags)).launch.flags == flags
