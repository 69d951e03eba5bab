"""Records of task files, in both forms."""


def raw(task_id=1, *, site='reddit', **evals):
  """One of the original's form; `evals` replace parts of its `eval`."""
  return {
      'task_id': task_id,
      'sites': [site],
      'require_login': True,
      'storage_state': None,
      'start_url': f'__{site.upper()}__',
      'geolocation': None,
      'intent_template': 'Go {{where}}',
      'instantiation_dict': {'where': 'there'},
      'intent': f'Go there {task_id}',
      'require_reset': False,
      'intent_template_id': task_id,
      'eval': {
          'eval_types': [],
          'reference_answers': None,
          'reference_url': '',
          'program_html': [],
          **evals,
      },
  }


def answer(data=None, kind='string', *, task_type='retrieve', **others):
  """An AgentResponseEvaluator of webarena-verified's form."""
  schema = {'type': 'array', 'items': {'type': kind}}
  return {
      'evaluator': 'AgentResponseEvaluator',
      'results_schema': {'type': 'null'} if data is None else schema,
      'expected': {
          'task_type': task_type,
          'status': 'SUCCESS',
          'retrieved_data': data,
      },
      **others,
  }


def request(url, *, config=None, **expected):
  """A NetworkEventEvaluator of webarena-verified's form."""
  return {
      'evaluator': 'NetworkEventEvaluator',
      **(config or {}),
      'expected': {'url': url, **expected},
  }


def verified(task_id=1, *evals, site='reddit'):
  """One of webarena-verified's form."""
  return {
      'task_id': task_id,
      'sites': [site],
      'intent_template_id': task_id,
      'start_urls': [f'__{site.upper()}__'],
      'intent': f'Go there {task_id}',
      'eval': list(evals) or [answer(['Ann'])],
  }
