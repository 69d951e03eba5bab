"""The score of an episode of a public task."""

from collections.abc import Mapping, Sequence
from typing import Any

from playwright.async_api import Error, Page

from agentrl.envs.webarena.public import contents, raw, sites, verified
from agentrl.envs.webarena.public.events import Entry
from agentrl.envs.webarena.public.form import PublicTask
from agentrl.envs.webarena.public.raw import Judge
from agentrl.errors import EnvError


async def evaluate(
    task: PublicTask,
    urls: Mapping[str, str],
    *,
    answer: str,
    page: Page | None,
    entries: Sequence[Entry],
    judge: Judge | None = None,
    headers: Mapping[str, str] | None = None,
) -> float:
  """The score, 0 or 1.

  Args:
    task: that was played.
    urls: site -> its URL.
    answer: the text of `stop`.
    page: that the episode ended on; verified tasks need none.
    entries: the episode's requests; raw tasks need none.
    judge: compares answers by meaning, see `raw.Judge`.
    headers: that sign in, see `sites.login_headers`.

  Raises:
    EnvError: a site does not answer, or an evaluator or the judge fails.
  """
  try:
    if not task.raw:
      return _verified(task, urls, answer, entries)
    return await _raw(task, urls, answer, page, judge, headers)
  except (EnvError, Error):  # the browser names the latter
    raise
  except Exception as error:  # of a task file or a judge, which may be anything
    raise EnvError(
        f'Task {task.id} cannot be graded: {error!r:.300}'
    ) from error


async def _raw(
    task: PublicTask,
    urls: Mapping[str, str],
    answer: str,
    page: Page | None,
    judge: Judge | None,
    headers: Mapping[str, str] | None,
) -> float:
  config: Mapping[str, Any] = sites.fill_all(task.evals[0], urls)
  score = 1.0
  for kind in config['eval_types']:
    if kind == 'string_match':
      try:
        score *= await raw.of_answer(
            config['reference_answers'],
            answer,
            intent=task.intent,
            reason=config.get('string_note', ''),
            judge=judge,
        )
      except Exception as error:  # of a judge, which may be anything
        raise EnvError(
            f'The judge failed on task {task.id}: {error!r:.300}'
        ) from error
    elif kind == 'url_match':
      assert page is not None  # raw tasks end on one
      score *= raw.of_url(config['reference_url'], page.url)
    elif score:  # pages need not be opened once the score is 0
      assert page is not None
      score *= await contents.evaluate(
          config['program_html'], urls, page, headers=headers
      )
  return score


def _verified(
    task: PublicTask,
    urls: Mapping[str, str],
    answer: str,
    entries: Sequence[Entry],
) -> float:
  mine = {site: urls[site] for site in task.sites}
  verdict = verified.evaluate(task.evals, mine, answer, entries)
  if verdict.status == 'error' and not verdict.answer:
    raise EnvError(f'Task {task.id} cannot be graded: {verdict.why}')
  return verdict.score
