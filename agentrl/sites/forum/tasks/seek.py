"""Questions about the forum: submissions, forums and comments."""

import sqlite3
from collections.abc import Callable, Sequence

from agentrl.sites.answers import Answer, Date, Number, Several, Text
from agentrl.sites.forum.pages.show import host
from agentrl.sites.forum.tasks import picking
from agentrl.sites.forum.tasks.picking import FORUMS, HOME, MESSAGES
from agentrl.sites.goals import Goal
from agentrl.sites.task import (
    SEEK,
    Step,
    Stores,
    Task,
    Template,
    click_on,
    stop,
)

_MONTH_AGO = '2023-05-16 12:00:00'  # 30 days before now
_RANKS = (
    'most', 'second most', 'third most', 'fourth most', 'fifth most',
    'sixth most', 'seventh most', 'eighth most', 'ninth most', 'tenth most',
    '11th most', '12th most', '13th most', '14th most', '15th most',
    '16th most', '17th most', '18th most', '19th most',
)  # fmt: skip
Find = Callable[[sqlite3.Row], list[sqlite3.Row]]


def ask(intent: str, answer: Answer, steps: Sequence[Step], start: str) -> Task:
  """A task whose goal is an answer."""
  return Task(
      intent=intent,
      goal=Goal(answer=answer),
      steps=(*steps, stop(answer.example())),
      start=(start,),
  )


def _by(stores: Stores, column: str, since: str = '') -> Find:
  """The submissions of a forum, see `picking.ranked`."""
  return lambda row: picking.ranked(stores, row['id'], column, since=since)


def _apart(found: Sequence[sqlite3.Row], column: str, most: int) -> bool:
  """True if the first `most` rows differ from each other and from the rest."""
  values = [row[column] for row in found[: most + 1]]
  return len(values) > most and len(set(values)) == len(values)


def _in_forum(
    stores: Stores, forum: str, start: str, *clicks: str
) -> Sequence[Step]:
  return (
      *picking.to_forum(stores, forum, at_home=start == HOME),
      *(click_on('link', name) for name in clicks),
  )


def _top_author(stores: Stores, k: int) -> Task:
  forum, found = picking.pick_forum(
      stores,
      k,
      _by(stores, 'score'),
      lambda found: _apart(found, 'score', 1)
      and found[0]['user_id'] != picking.EMMA,
  )
  name = forum['name']
  return ask(
      'Who posted the submission with the most points of all time in'
      f' /f/{name}? Answer with the user name.',
      Text(found[0]['author']),
      _in_forum(stores, name, FORUMS, 'Top'),
      FORUMS,
  )


def _linked(found: Sequence[sqlite3.Row]) -> tuple[str, list[str]] | None:
  """A site that two or three of the first ten link to, and their titles."""
  if len(found) < 12 or found[9]['score'] == found[10]['score']:
    return None
  hosts = [host(x['url']) if x['url'] else '' for x in found[:10]]
  for each in sorted(set(hosts) - {''}):
    if hosts.count(each) in (2, 3):
      pairs = zip(found[:10], hosts, strict=True)
      return each, [x['title'] for x, site in pairs if site == each]
  return None


def _top_links(stores: Stores, k: int) -> Task:
  forum, (site, titles) = picking.pick_forum(
      stores,
      k,
      lambda row: _linked(_by(stores, 'score')(row)),
      lambda found: found is not None,
      first=5,
  )
  name = forum['name']
  return ask(
      f'Look at the 10 submissions of /f/{name} that have the most points of'
      f' all time. Which of them link to {site}? Give their titles, separated'
      ' by semicolons.',
      Several([Text(x) for x in titles]),
      _in_forum(stores, name, FORUMS, 'Top'),
      FORUMS,
  )


def _disliked(stores: Stores, k: int) -> Task:
  def find(row: sqlite3.Row) -> tuple[int, int]:
    """The author of the newest submission, and that user's bad comments."""
    author = picking.one(
        stores,
        'SELECT user_id FROM submissions WHERE forum_id = ? ORDER BY created_at'
        ' DESC LIMIT 1',
        row['id'],
    )
    bad = 'SELECT count(*) FROM replies WHERE user_id = ? AND score < 0'
    return author, picking.one(stores, bad, author)

  forum, (author, bad) = picking.pick_forum(
      stores,
      k,
      find,
      lambda found: found[0] != picking.EMMA
      and found[1] > 3
      and not picking.guessed(found[1]),
  )
  name = forum['name']
  user = picking.one(stores, 'SELECT name FROM users WHERE id = ?', author)
  many = picking.one(
      stores, 'SELECT count(*) FROM comments WHERE user_id = ?', author
  )
  return ask(
      f'Take the user who posted the newest submission in /f/{name}. How many'
      ' of the comments that this user has written, anywhere, have a score'
      ' below zero? Answer with a number.',
      Number(str(bad), 'comments'),
      (
          *_in_forum(stores, name, HOME, 'New', user, 'Comments'),
          *(click_on('link', 'Next'),) * ((many - 1) // 20),
      ),
      HOME,
  )


def _created(stores: Stores, k: int) -> Task:
  forum, _ = picking.pick_forum(stores, k, first=20)
  name = forum['name']
  return ask(
      f'When was the forum /f/{name} created? Answer with the date.',
      Date(forum['created_at'][:10]),
      _in_forum(stores, name, HOME),
      HOME,
  )


def _subscribers(stores: Stores, k: int) -> Task:
  forum, many = picking.pick_forum(
      stores,
      k,
      lambda row: picking.one(
          stores,
          'SELECT count(*) FROM subscriptions WHERE forum_id = ?',
          row['id'],
      ),
      lambda many: not picking.guessed(many),
      first=7,
  )
  name = forum['name']
  return ask(
      f'How many subscribers does /f/{name} have? Answer with a number.',
      Number(str(many), 'subscribers'),
      _in_forum(stores, name, HOME),
      HOME,
  )


def _rank(stores: Stores, k: int) -> Task:
  found = picking.rows(
      stores,
      'SELECT f.name, count(*) AS many FROM forums f JOIN subscriptions s ON'
      ' s.forum_id = f.id GROUP BY f.id ORDER BY many DESC, f.name',
  )
  counts = [row['many'] for row in found]
  places = [n for n in range(1, len(_RANKS)) if counts.count(counts[n]) == 1]
  place = places[k * len(places) // 5]
  name = found[place]['name']
  return ask(
      f'Which forum has the {_RANKS[place]} subscribers of all? Answer with its'
      ' name as in its address, after /f/.',
      Text(name, (f'/f/{name}', f'f/{name}')),
      (click_on('link', 'Forums'), click_on('link', 'By subscribers')),
      MESSAGES,
  )


def _comments(stores: Stores, key: int) -> list[sqlite3.Row]:
  """The comments of a submission, best first."""
  return picking.rows(
      stores,
      'SELECT * FROM replies WHERE submission_id = ? ORDER BY score DESC, id',
      key,
  )


def _pick_thread(
    stores: Stores,
    k: int,
    low: int,
    fits: Callable[[list[sqlite3.Row]], bool],
) -> tuple[sqlite3.Row, list[sqlite3.Row]]:
  """The k-th submission whose comments fit, and these comments.

  Args:
    stores: the records.
    k: from 0.
    low: the first id; later ones are looked at too.
    fits: says so of the comments, best first; there are 6 to 14.

  Raises:
    LookupError: fewer fit.
  """
  found = picking.rows(
      stores,
      'SELECT submission_id AS id FROM comments WHERE submission_id BETWEEN ?'
      ' AND ? GROUP BY 1 HAVING count(*) BETWEEN 6 AND 14',
      low,
      low + 250,
  )
  for row in picking.mixed(found):
    comments = _comments(stores, row['id'])
    if fits(comments):
      if k == 0:
        return picking.post_of(stores, row['id']), comments
      k -= 1
  raise LookupError('too few submissions fit.')


def _writers(comments: Sequence[sqlite3.Row]) -> list[tuple[int, str]]:
  """How many of the comments each user wrote, the busiest first."""
  names = [x['author'] for x in comments]
  return sorted(((names.count(x), x) for x in set(names)), reverse=True)


def _best_comment(stores: Stores, k: int) -> Task:
  post, comments = _pick_thread(
      stores,
      k,
      100,
      lambda found: found[0]['score'] > found[1]['score']
      and found[0]['user_id'] != picking.EMMA,
  )
  return ask(
      'Who wrote the comment with the most points under the submission'
      f' "{post["title"]}"? Answer with the user name.',
      Text(comments[0]['author']),
      picking.find_post(post['title']),
      FORUMS,
  )


def _answered(
    found: Sequence[sqlite3.Row],
) -> tuple[sqlite3.Row, sqlite3.Row] | None:
  """A user's only comment there, and the only reply to it."""
  for row in found:
    below = [x for x in found if x['parent_id'] == row['id']]
    alone = sum(x['user_id'] == row['user_id'] for x in found) == 1
    if (
        len(below) == 1
        and alone
        and picking.EMMA not in (row['user_id'], below[0]['user_id'])
    ):
      return row, below[0]
  return None


def _answered_by(stores: Stores, k: int) -> Task:
  post, comments = _pick_thread(
      stores, k, 350, lambda found: _answered(found) is not None
  )
  answered = _answered(comments)
  assert answered is not None  # the thread was picked for it
  comment, reply = answered
  return ask(
      f'Under the submission "{post["title"]}" the user {comment["author"]}'
      ' wrote one comment, which got a single direct reply. Who wrote that'
      ' reply? Answer with the user name.',
      Text(reply['author']),
      picking.find_post(post['title']),
      FORUMS,
  )


def _address(stores: Stores, k: int) -> Task:
  post = picking.pick_post(stores, k + 20, 's.url IS NOT NULL')
  return ask(
      f'Which address does the submission "{post["title"]}" link to? Answer'
      ' with the whole URL.',
      Text(post['url']),
      picking.find_post(post['title']),
      FORUMS,
  )


def _most_commented(stores: Stores, k: int) -> Task:
  forum, found = picking.pick_forum(
      stores,
      k,
      _by(stores, 'comments'),
      lambda found: _apart(found, 'comments', 1),
      first=10,
  )
  name = forum['name']
  return ask(
      f'What is the title of the submission in /f/{name} that has the most'
      ' comments of all time?',
      Text(found[0]['title']),
      _in_forum(stores, name, FORUMS, 'Most commented'),
      FORUMS,
  )


def _top_month(stores: Stores, k: int) -> Task:
  def find(row: sqlite3.Row) -> tuple[list[sqlite3.Row], int]:
    recent = _by(stores, 'score', _MONTH_AGO)(row)
    return recent, _by(stores, 'score')(row)[0]['id']

  forum, (found, _) = picking.pick_forum(
      stores,
      k,
      find,
      lambda found: len(found[0]) > 3
      and found[0][0]['id'] != found[1]
      and not picking.guessed(found[0][0]['score']),
      first=15,
  )
  name = forum['name']
  return ask(
      f'Among those submissions in /f/{name} that the forum lists for the past'
      ' month, how many points does the one with the most points have? Answer'
      ' with a number.',
      Number(str(found[0]['score']), 'points'),
      _in_forum(stores, name, HOME, 'Top', 'Past month'),
      HOME,
  )


def _last_commented(stores: Stores, k: int) -> Task:
  forum, found = picking.pick_forum(
      stores,
      k,
      _by(stores, 'coalesce(commented_at, created_at)'),
      lambda found: found[0]['commented_at'] is not None
      and found[0]['commented_at'] != found[1]['commented_at'],
      first=4,
  )
  name = forum['name']
  return ask(
      f'Which submission in /f/{name} got the most recent comment? Answer with'
      ' its title.',
      Text(found[0]['title']),
      _in_forum(stores, name, FORUMS, 'Active'),
      FORUMS,
  )


def _moderators(stores: Stores, k: int) -> Task:
  def find(row: sqlite3.Row) -> list[str]:
    found = picking.rows(
        stores,
        'SELECT u.name FROM moderators m JOIN users u ON u.id = m.user_id'
        ' WHERE m.forum_id = ? ORDER BY m.id',
        row['id'],
    )
    return [x['name'] for x in found]

  forum, names = picking.pick_forum(
      stores,
      k,
      find,
      lambda names: len(names) > 2 and 'emma' not in names,
      first=11,
  )
  return ask(
      f'Who are the moderators of /f/{forum["name"]}? Give all user names,'
      ' separated by semicolons.',
      Several([Text(x) for x in names]),
      _in_forum(stores, forum['name'], FORUMS),
      FORUMS,
  )


def _sum_of_top(stores: Stores, k: int) -> Task:
  forum, found = picking.pick_forum(
      stores,
      k,
      _by(stores, 'score'),
      lambda found: _apart(found, 'score', 3),
      first=25,
  )
  name = forum['name']
  return ask(
      'How many points do the three submissions with the most points of all'
      f' time in /f/{name} have together? Answer with a number.',
      Number(str(sum(row['score'] for row in found[:3])), 'points'),
      _in_forum(stores, name, HOME, 'Top'),
      HOME,
  )


def _lead(stores: Stores, k: int) -> Task:
  lead = lambda found: found[0]['score'] - found[1]['score']
  forum, found = picking.pick_forum(
      stores,
      k,
      _by(stores, 'score'),
      lambda found: _apart(found, 'score', 2)
      and not picking.guessed(lead(found)),
      first=30,
  )
  name = forum['name']
  return ask(
      f'In /f/{name}, how many points does the submission with the most points'
      ' of all time have more than the second one? Answer with a number.',
      Number(str(lead(found)), 'points'),
      _in_forum(stores, name, HOME, 'Top'),
      HOME,
  )


def _busiest(stores: Stores, k: int) -> Task:
  def fits(found: list[sqlite3.Row]) -> bool:
    (first, name), (second, _) = _writers(found)[:2]
    return first > max(1, second) and name != 'emma'

  post, comments = _pick_thread(stores, k, 600, fits)
  return ask(
      'Which user wrote the largest number of comments under the submission'
      f' "{post["title"]}"? Answer with the user name.',
      Text(_writers(comments)[0][1]),
      picking.find_post(post['title']),
      FORUMS,
  )


def _worst_comment(stores: Stores, k: int) -> Task:
  post, comments = _pick_thread(
      stores, k, 850, lambda found: found[-1]['score'] < -3
  )
  return ask(
      'How many points does the worst rated comment under the submission'
      f' "{post["title"]}" have? Answer with a number, which is below zero.',
      Number(str(comments[-1]['score']), 'points'),
      picking.find_post(post['title']),
      HOME,
  )


def _comment_points(stores: Stores, k: int) -> Task:
  def find(found: Sequence[sqlite3.Row]) -> sqlite3.Row | None:
    alone = {name for many, name in _writers(found) if many == 1}
    middle = found[len(found) // 3]
    fits = middle['author'] in alone - {'emma'} and middle['score'] > 10
    return middle if fits and middle['score'] != 100 else None

  post, comments = _pick_thread(
      stores, k, 1100, lambda found: find(found) is not None
  )
  comment = find(comments)
  assert comment is not None  # the thread was picked for it
  return ask(
      f'How many points has the comment that {comment["author"]} wrote under'
      f' the submission "{post["title"]}"? Answer with a number.',
      Number(str(comment['score']), 'points'),
      picking.find_post(post['title']),
      HOME,
  )


TEMPLATES = (
    Template('forum/top_author', SEEK, _top_author, 5, (17,)),
    Template('forum/top_links', SEEK, _top_links, 5, (17,)),
    Template('forum/disliked_comments', SEEK, _disliked, 5, (33,)),
    Template('forum/forum_created', SEEK, _created, 5),
    Template('forum/subscribers', SEEK, _subscribers, 5),
    Template('forum/subscriber_rank', SEEK, _rank, 5),
    Template('forum/best_comment', SEEK, _best_comment, 5),
    Template('forum/answered_by', SEEK, _answered_by, 5),
    Template('forum/link_address', SEEK, _address, 5),
    Template('forum/most_commented', SEEK, _most_commented, 5),
    Template('forum/top_of_month', SEEK, _top_month, 5),
    Template('forum/last_commented', SEEK, _last_commented, 5),
    Template('forum/moderators', SEEK, _moderators, 5),
    Template('forum/sum_of_top', SEEK, _sum_of_top, 5),
    Template('forum/lead', SEEK, _lead, 5),
    Template('forum/busiest', SEEK, _busiest, 5),
    Template('forum/worst_comment', SEEK, _worst_comment, 5),
    Template('forum/comment_points', SEEK, _comment_points, 5),
)
