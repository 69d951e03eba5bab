"""What all tests share: the programs that they compile, Hypothesis' settings."""

import gc
import os

import hypothesis
import jax
import pytest

from agentrl.envs.web import chromium
from agentrl.errors import EnvError
from agentrl.evaluation.chance import store
from agentrl.parallel import compile_cache
from tests import passed

# A test draws the same cases in every run, so that one which passed does not
# fail elsewhere by chance; --hypothesis-profile=explore draws others each time.
# No deadline: what jits is slow the first time, and machines are shared.
hypothesis.settings.register_profile(
    'repeatable', deadline=None, derandomize=True
)
hypothesis.settings.register_profile('explore', deadline=None)
hypothesis.settings.load_profile('repeatable')

_ALWAYS_QUICK = jax.config.read('jax_disable_most_optimizations')


def pytest_configure(config):
  """Shares the user's compiled programs, here and in child processes.

  Most tiny tests are mostly compilation, which outlives a checkout so. Entries
  are found by program, version and flags: a stale one never is.
  """
  config.pluginmanager.register(passed.Passed(config))
  compile_cache.use(None)
  if folder := jax.config.jax_compilation_cache_dir:
    # For child processes, whatever they are and whatever cache folder they get.
    os.environ['JAX_COMPILATION_CACHE_DIR'] = folder
    os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0')


@pytest.hookimpl(wrapper=True)
def pytest_collection():
  """Collects tests without garbage collection: what it makes stays anyway.

  Each pass would go through all modules and tests so far, which is a third of
  the time that collecting takes; passes while tests run go through neither.
  """
  gc.disable()
  try:
    return (yield)
  finally:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config, items):
  """Deselects extra tests; skips those in a browser where there is none."""
  if not os.environ.get('AGENTRL_EXTRA'):
    extra = [item for item in items if item.get_closest_marker('extra')]
    items[:] = [item for item in items if item not in extra]
    config.hook.pytest_deselected(items=extra)
  wanted = [item for item in items if item.get_closest_marker('browser')]
  if not wanted:
    return
  try:
    chromium.find()
  except EnvError as error:
    for item in wanted:
      item.add_marker(pytest.mark.skip(reason=str(error)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
  """Compiles as the test asks, and leaves it no program compiled otherwise.

  Modules share programs, which differ in rounding: half of a run with those of
  an earlier module is not equal to the bit to a run with its own.
  """
  quick = _ALWAYS_QUICK or 'quick_compilation' in item.fixturenames
  if quick != jax.config.read('jax_disable_most_optimizations'):
    jax.clear_caches()
    jax.config.update('jax_disable_most_optimizations', quick)


@pytest.fixture(scope='module')
def quick_compilation():
  """For what takes longer to compile than to run: slower code will do."""


@pytest.fixture(scope='session', autouse=True)
def levels_of_tests(tmp_path_factory):
  """Keeps what fakes play in the place of random actions from a user's cache."""
  folder = tmp_path_factory.mktemp('chance')
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(store, 'folder', lambda: folder)
    yield
