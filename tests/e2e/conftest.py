"""What the end-to-end tests share."""

import pytest


@pytest.fixture(scope='session', autouse=True)
def compile_once(tmp_path_factory):
  """The processes share what they compile: most of what they do here."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv(
        'JAX_COMPILATION_CACHE_DIR', str(tmp_path_factory.mktemp('compiled'))
    )
    patch.setenv('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.3')
    yield
