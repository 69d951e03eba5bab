"""Ten minutes on two cores: imitate a walker a little, then learn."""

from agentrl.config import defaults


def get_config():
  config = defaults('train')
  config.num_steps = 50
  config.env.name = 'walk.py:SPEC'
  config.agent = dict(format='parts.py:FORMAT', instructions='prompt.txt')
  config.model = dict(name='tiny-1m')
  config.warmstart = dict(episodes=256, epochs=3, minibatch_size=16, horizon=12)
  config.rollout = dict(
      reward='parts.py:reward',
      tasks_per_step=8,
      group_size=8,
      max_completion_tokens=16,
      max_context=512,
  )
  config.horizon = dict(kind='fixed', turns=(8,))
  config.algo = dict(name='parts.py:ALGORITHM', minibatches=2)
  config.optim = dict(lr=2e-4, warmup_steps=2)
  config.track.to = ('tensorboard', 'parts.py:Csv')
  config.eval = dict(num_tasks=256, horizon=8)
  return config
