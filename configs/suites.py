"""Named panels of several environments, for configs/evaluate.py:suite=NAME.

A panel lists what differs from the defaults of mode 'evaluate': fields of `env` and
`eval`. `--config.eval.num_tasks=8`, or `n=8`, is over the size of each.
"""


def _panel(name, num_tasks, horizon, **options):
  return {
      'env': {'name': name, 'options': options},
      'eval': {'num_tasks': num_tasks, 'horizon': horizon, 'split': 'test'},
  }


SUITES = {
    # Both need nothing but requirements.txt; seconds for an expert.
    'quick': (_panel('textcraft', 40, 30), _panel('babyai', 64, 20)),
    # The environments of AgentGym-RL (arXiv:2509.08755) in text: TextCraft by
    # depth, BabyAI by level, SciWorld by task, SearchQA by hops.
    'text': (
        _panel('textcraft', 100, 30),
        _panel('babyai', 256, 20),
        _panel('sciworld', 200, 30),
        _panel('searchqa', 400, 10),
    ),
    # A browser, and Chromium, at work.
    'web': (_panel('miniwob', 200, 10), _panel('webarena', 200, 30)),
}
SUITES['all'] = SUITES['text'] + SUITES['web']
