"""Requests to the other native routes, also while something runs."""

from tests.sglang.steps import FEW, JSON, generate, get, post, run


def control():
  for path, bodies in {
      'abort_request': (
          {},
          {'rid': ''},
          {'rid': None},
          {'rid': 'nobody'},
          {'rid': 5},
          {'rid': ['a']},
          {'abort_all': 'x'},
          {'abort_all': 'false'},
          {'abort_all': None},
          {'abort_all': True},
          {'rid': 'a', 'abort_all': False, 'foo': 1},
          [],
          'a',
      ),
      'pause_generation': (
          {'mode': 'nap'},
          {'mode': None},
          {'mode': 5},
          {'mode': ['abort']},
          [],
      ),
      'continue_generation': ({}, {'torch_empty_cache': 'x'}, {'foo': 1}, []),
      'update_weights_from_disk': (
          {},
          {'model_path': None},
          {'model_path': 5},
          {'model_path': ''},
          {'model_path': '/no/such/folder'},
          {'model_path': '<weights>', 'load_format': 5},
          {'model_path': '<weights>', 'weight_version': 5},
          {'model_path': '<weights>', 'flush_cache': 'x'},
          {'model_path': '<weights>', 'flush_cache': None},
          {'model_path': '<weights>', 'abort_all_requests': 'x'},
          {'model_path': '<weights>', 'token_step': 'x'},
          {'model_path': '<weights>', 'manifest': 5},
          [],
      ),
      'update_weight_version': (
          {},
          {'new_version': None},
          {'new_version': 5},
          {'new_version': 'v', 'abort_all_requests': 'x'},
          {'new_version': 'v', 'abort_all_requests': None},
          [],
      ),
      'get_weights_by_name': (
          {},
          {'name': 5},
          {'name': ''},
          {'name': 'nobody'},
          {'name': 'model.norm.weight'},
          {'name': 'model.norm.weight', 'truncate_size': 3},
          {'name': 'model.norm.weight', 'truncate_size': 0},
          {'name': 'model.norm.weight', 'truncate_size': -3},
          {'name': 'model.norm.weight', 'truncate_size': 10**6},
          {'name': 'model.norm.weight', 'truncate_size': '3'},
          {'name': 'model.norm.weight', 'truncate_size': 2.5},
          {'name': 'model.norm.weight', 'truncate_size': None},
          {'name': 'model.embed_tokens.weight', 'truncate_size': 2},
          {
              'name': 'model.layers.0.self_attn.q_proj.weight',
              'truncate_size': 2,
          },
          {
              'name': 'model.layers.0.self_attn.k_proj.weight',
              'truncate_size': 2,
          },
          {
              'name': 'model.layers.1.mlp.up_proj.weight',
              'truncate_size': 1,
          },
          {'name': 'lm_head.weight', 'truncate_size': 1},
          [],
      ),
      'load_lora_adapter': (
          {},
          {'lora_name': 'a'},
          {'lora_name': 'a', 'lora_path': '/no/such/folder'},
          {'lora_name': 5, 'lora_path': 'a'},
      ),
      'unload_lora_adapter': ({}, {'lora_name': 'nobody'}, {'lora_name': 5}),
  }.items():
    for body in bodies:
      yield f'control: {path} {body!r}', post(path, body)
    for name, raw in (('nothing', b''), ('half', b'{'), ('nan', b'[NaN]')):
      yield f'control: {path}, raw {name}', post(path, raw=raw, headers=JSON)
  yield 'control: GET get_weights_by_name, body', get(
      'get_weights_by_name',
      body={'name': 'model.norm.weight', 'truncate_size': 3},
  )
  yield 'control: GET get_weights_by_name, query', get(
      'get_weights_by_name?name=model.norm.weight'
  )
  yield 'control: POST get_weights_by_name, query', post(
      'get_weights_by_name?name=model.norm.weight', {}
  )
  for query in ('', '?timeout=0', '?timeout=0.5', '?timeout=-1', '?timeout=x',
                '?timeout=nan', '?timeout=', '?foo=1'):  # fmt: skip
    yield f'control: flush_cache{query}', post(f'flush_cache{query}')
  yield 'control: GET flush_cache', get('flush_cache')
  yield 'control: flush_cache with a body', post('flush_cache', raw=b'{')
  for path in ('encode', 'classify', 'tokenize', 'v1/embeddings', 'v1/score'):
    yield f'no route of ours: {path}', post(path, {'foo': 1})
  for method, path in (
      ('GET', 'generate'),
      ('DELETE', 'generate'),
      ('PATCH', 'generate'),
      ('OPTIONS', 'generate'),
      ('HEAD', 'generate'),
      ('HEAD', 'model_info'),
      ('HEAD', 'health'),
      ('PUT', 'abort_request'),
      ('GET', 'abort_request'),
      ('GET', 'pause_generation'),
      ('GET', 'update_weights_from_disk'),
      ('POST', 'model_info'),
      ('POST', 'v1/models'),
      ('POST', 'health'),
      ('GET', 'nowhere'),
      ('GET', ''),
      ('POST', ''),
      ('GET', 'generate/'),
      ('GET', 'model_info/'),
      ('GET', '%2e%2e/x'),
      ('GET', 'v1/models/nobody'),
      ('GET', 'v1/completions'),
  ):
    yield f'route: {method} /{path}', {'send': f'{method} /{path}'}


def state():
  for path in (
      'health',
      'health_generate',
      'ready',
      'ping',
      'model_info',
      'get_model_info',
      'server_info',
      'get_server_info',
      'v1/loads',
      'v1/loads?include=core',
      'v1/loads?include=core,queues',
      'v1/loads?include=nonsense',
      'v1/loads?dp_rank=0',
      'v1/loads?dp_rank=5',
      'v1/loads?dp_rank=x',
      'v1/loads?format=prometheus',
      'metrics',
      'v1/models',
  ):
    yield f'state: {path}', get(path)


def running():
  """Requests beside one that runs. They leave nothing behind.

  Each has ids of its own: a server aborts that of a stream once more, two
  seconds after its end.
  """
  abort = lambda rid: post('abort_request', {'rid': rid})
  end = post('abort_request', {'abort_all': True})
  yield 'running: abort by id', [
      run('a', rid='alpha'), {'first': 'a'}, abort('alpha'), {'join': 'a'},
      {'idle': True},
  ]  # fmt: skip
  yield 'running: abort by prefix', [
      run('a', FEW, rid='prefixed'), {'first': 'a'}, abort('pre'), {'join': 'a'},
  ]  # fmt: skip
  yield 'running: abort by an id that begins another', [
      run('a', rid='zeta'), run('b', rid='zeta1'), {'first': 'a'},
      {'first': 'b'}, abort('zeta'), {'join': 'a'}, {'join': 'b'},
      {'idle': True},
  ]  # fmt: skip
  two = {'input_ids': [[5], [6]]}
  for name, rid in (('its rid', 'beta'), ('one id', 'theta_0')):
    yield f'running: abort a batch by {name}', [
        run('a', FEW, rid=rid.partition('_')[0], **two), {'first': 'a'}, abort(rid), {'join': 'a'},
    ]  # fmt: skip
  for name, rid in (('its rid', 'gamma'), ('one id', 'iota_0')):
    yield f'running: abort n 2 by {name}', [
        run('a', FEW | {'n': 2}, rid=rid.partition('_')[0]), {'first': 'a'}, abort(rid),
        {'join': 'a'},
    ]  # fmt: skip
  yield 'running: abort all', [
      run('a', return_logprob=True), {'first': 'a'}, end, {'join': 'a'},
      {'idle': True},
  ]  # fmt: skip
  yield 'running: the same rid again', [
      run('a', rid='delta'), {'first': 'a'}, generate(rid='delta'),
      generate(rid='delta', stream=True), generate(rid='delta', **two), end,
      {'join': 'a'}, {'idle': True}, generate(rid='delta'),
  ]  # fmt: skip
  yield 'running: a derived rid again', [
      run('a', rid='eps', **two), {'first': 'a'}, generate(rid='eps_1'),
      generate(rid='eps'), end, {'join': 'a'}, {'idle': True},
  ]  # fmt: skip
  yield 'running: probes', [
      run('a'), {'first': 'a'}, get('health'), get('ready'), get('ping'),
      get('v1/loads?include=core'), post('flush_cache'), end, {'join': 'a'},
      {'idle': True},
  ]  # fmt: skip
  yield 'running: a new version', [
      run('a'), {'first': 'a'},
      post('update_weight_version', {'new_version': 'v1'}), {'join': 'a'},
      {'idle': True}, get('model_info'),
  ]  # fmt: skip
  yield 'running: a new version, going on', [
      run('a', FEW), {'first': 'a'},
      post('update_weight_version',
           {'new_version': 'v2', 'abort_all_requests': False}),
      {'join': 'a'}, generate(),
  ]  # fmt: skip
  update = lambda **more: post(
      'update_weights_from_disk', {'model_path': '<weights>'} | more
  )
  yield 'running: an update waits', [
      run('a', FEW), {'first': 'a'},
      update(weight_version='v3'), {'join': 'a'}, get('model_info'),
  ]  # fmt: skip
  yield 'running: an update that aborts', [
      run('a'), {'first': 'a'},
      # By whether its last batch has left, a server says that it did (200), or
      # that it did and could not flush the cache (400).
      update(weight_version='v4', abort_all_requests=True) | {'free': True},
      {'join': 'a'},
      {'idle': True}, get('model_info'),
  ]  # fmt: skip
  yield 'idle: an update', [
      {'idle': True}, update(weight_version='v5'), generate(),
      update(), generate(), get('model_info'),
  ]  # fmt: skip
  go = post('continue_generation', {})
  for mode in ('abort', 'retract', 'in_place'):
    pause = post('pause_generation', {'mode': mode})
    yield f'paused: {mode}', [
        run('a', FEW), {'first': 'a'}, pause,
        get('ready'), get('ping'), get('model_info'),
        generate() | {'start': 'b'}, {'waits': 'b'},
        get('v1/loads?include=core'), post('flush_cache'),
        update(flush_cache=False, weight_version=f'p-{mode}'), go,
        {'join': 'a'}, {'join': 'b'}, get('ready'), {'idle': True},
    ]  # fmt: skip
    yield f'paused: {mode}, and abort all', [
        run('a'), {'first': 'a'}, pause, end, go,
        {'join': 'a'}, {'idle': True},
    ]  # fmt: skip
  yield 'paused: an update that flushes', [
      run('a', FEW), {'first': 'a'},
      post('pause_generation', {'mode': 'retract'}),
      update(weight_version='p-flush'), go, {'join': 'a'}, {'idle': True},
  ]  # fmt: skip
  yield 'paused: in place, an update that flushes', [
      run('a', FEW), {'first': 'a'},
      post('pause_generation', {'mode': 'in_place'}),
      update(weight_version='p-place'), go, {'join': 'a'}, {'idle': True},
  ]  # fmt: skip
  yield 'paused: twice, and twice on', [
      post('pause_generation', {}), post('pause_generation', {}), go, go,
      generate(),
  ]  # fmt: skip
  yield 'cache: what is reported', [
      {'idle': True}, post('flush_cache'),
      *(generate(input_ids=[40 + i for i in range(20)]) for _ in range(2)),
      generate(input_ids=[40 + i for i in range(25)]),
      generate(input_ids=[40 + i for i in range(20)], extra_key='other'),
      generate(input_ids=[40 + i for i in range(20)], return_logprob=True,
               logprob_start_len=8),
  ]  # fmt: skip
