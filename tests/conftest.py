"""What all tests share: the programs that they compile, Hypothesis' settings."""

import os

import hypothesis

# A test draws the same cases in every run, so that one which passed does not
# fail elsewhere by chance; --hypothesis-profile=explore draws others each time.
# No deadline: what jits is slow the first time, and machines are shared.
hypothesis.settings.register_profile(
    'repeatable', deadline=None, derandomize=True
)
hypothesis.settings.register_profile('explore', deadline=None)
hypothesis.settings.load_profile('repeatable')


def pytest_configure(config):
  """Keeps what JAX compiles with pytest's cache, here and in child processes.

  Most tiny tests are mostly compilation. Entries are keyed by program, version
  and flags, so a stale one is never found; pytest --cache-clear drops them all.
  """
  folder = config.cache.mkdir('compiled')
  os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(folder))
  os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.1')
