"""Tests for config.sampler: what it may say, and what contradicts itself."""

import pytest
from agentrl.modes.sampler_settings import Launch, Sampler
from ml_collections import ConfigDict

from agentrl.errors import ConfigError
from agentrl.modes import reading, settings
from configs import common, evaluate, quickstart, textcraft_grpo, textcraft_sft

LOCAL = ('http://127.0.0.1:30000', 'http://localhost:30001')
REMOTE = ('http://gpu7:30000',)


def sglang(**fields):
  return Sampler(kind='sglang', **fields)


@pytest.mark.parametrize(
    'module', [evaluate, quickstart, textcraft_grpo, textcraft_sft]
)
def test_configs_have_the_embedded_engine_and_room_for_servers(module):
  section = module.get_config().sampler
  assert reading.read(Sampler, section, 'sampler').kind == 'embedded'
  section.lock()
  section.kind = 'sglang'
  section.launch.python = '/opt/sglang/bin/python'
  section.launch.flags = ('--tp-size', '2')
  section.launch.devices = ('1,2',)
  section.push = 'drain'
  read = reading.read(Sampler, section, 'sampler')
  assert read.launch == Launch(
      python='/opt/sglang/bin/python',
      flags=('--tp-size', '2'),
      devices=('1,2',),
  )


def test_servers_are_urls_a_router_or_children():
  assert sglang(urls=LOCAL).local
  assert not sglang(urls=REMOTE, push_dir='/shared').local
  assert sglang(router='http://127.0.0.1:1', push_dir='/shared').launch is None
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
        (ConfigDict({'tp_size': 2}).to_dict(), ('--tp-size', '2')),
    ],
)
def test_flags_are_words_or_a_dict(flags, words):
  assert Launch(python='py', flags=flags).words == words


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(), 'needs one of sampler.urls.*got none'),
        (dict(urls=LOCAL, launch=dict(python='p')), 'got urls and launch'),
        (dict(urls=LOCAL, router='http://r'), 'got urls and router'),
        (dict(urls=REMOTE), 'sampler.push_dir is missing'),
        (dict(router='http://127.0.0.1:1'), 'sampler.push_dir is missing'),
        (dict(urls='http://a'), r"is one string; .* \('http://a',\)"),
        (dict(urls=('gpu1:30000',), push_dir='d'), 'is like http://host'),
        (dict(urls=('http://a:x',), push_dir='d'), "urls has 'http://a:x'"),
        (dict(router='gpu1', push_dir='d'), "sampler.router has 'gpu1'"),
        (dict(urls=LOCAL, slots=9), 'slots=9 has no effect'),
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
        (dict(launch=dict(replicas=2)), 'without sampler.launch.python'),
        (dict(launch=dict(python='p', replica=2)), 'launch.replica; known'),
        (dict(launch=dict(python='p', replicas=0)), 'replicas must be at'),
        (dict(launch=dict(python='p', port=65536)), 'is no port'),
        (dict(launch=dict(python='p', devices=('0', '1'))), 'has 2 entries'),
        (dict(launch=dict(python='p', flags='--tp-size 2')), 'is one string'),
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
    ],
)
def test_contradictions_are_refused_with_the_way_out(fields, message):
  with pytest.raises(ConfigError, match=message):
    sglang(**fields)


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
  with pytest.raises(ConfigError, match=f'sampler.{name}.*no effect.*sglang'):
    Sampler(**fields)


@pytest.mark.parametrize('name', ['api_key', 'admin_key'])
def test_a_key_itself_is_refused_and_not_shown(name):
  with pytest.raises(ConfigError) as refused:
    sglang(urls=LOCAL, **{name: 'secret'})
  said = str(refused.value)
  assert f'sampler.{name}_file' in said and 'AGENTRL_SAMPLER_' in said
  assert 'secret' not in said


def test_a_key_among_the_flags_of_a_server_is_not_shown():
  launch = dict(python='p', flags=('--admin-api-key=secret',))
  with pytest.raises(ConfigError) as refused:
    sglang(launch=launch)
  assert '--admin-api-key' in str(refused.value)
  assert 'secret' not in str(refused.value)


def test_the_shared_section_says_what_the_defaults_are():
  section = ConfigDict(common.sampler(64))
  assert reading.read(Sampler, section, 'sampler') == Sampler()


@pytest.mark.parametrize(
    'flags', [('--dtype', 'bfloat16'), ('--dtype=half',), {'dtype': 'nonsense'}]
)
def test_servers_that_compute_in_another_type_are_refused(flags):
  servers = sglang(launch=dict(python='p', flags=flags))
  with pytest.raises(ConfigError, match="flags has --dtype .* model.dtype='fl"):
    settings.check_push(settings.Model('m'), servers)


@pytest.mark.parametrize('flags', [(), ('--dtype', 'auto'), ('--dtype=float',)])
def test_servers_that_compute_in_the_trainers_type_will_do(flags):
  servers = sglang(launch=dict(python='p', flags=flags))
  settings.check_push(settings.Model('m'), servers)
