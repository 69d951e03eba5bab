"""Questions about the forum: submissions, forums and comments."""

import sqlite3
from collections.abc import Callable, Sequence

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.answers import Date, Number, Several, Text
from agentrl.sites.forum.pages.show import host
from agentrl.sites.forum.tasks import paths
from agentrl.sites.forum.tasks.paths import seek

_VALUES = seed_data.read(__file__)
_MONTH_AGO = '2023-05-16 12:00:00'  # 30 days before now
_RANKS = _VALUES['ranks']
Find = Callable[[sqlite3.Row], list[sqlite3.Row]]


def _by(db: t.Db, column: str, since: str = '') -> Find:
  """The submissions of a forum, see `paths.ranked`."""
  return lambda row: paths.ranked(db, row['id'], column, since=since)


def _apart(rows: Sequence[sqlite3.Row], column: str, most: int) -> bool:
  """True if the first `most` rows differ from each other and from the rest."""
  values = [row[column] for row in rows[: most + 1]]
  return len(values) > most and len(set(values)) == len(values)


def _in_forum(
    db: t.Db, forum: str, start: str, *clicks: str
) -> Sequence[t.Step]:
  return (
      *paths.to_forum(db, forum, at_home=start == paths.HOME),
      *(t.link(name) for name in clicks),
  )


def _top_author(db: t.Db, k: int) -> t.Task:
  name, posts = paths.pick_forum(
      db,
      k,
      _by(db, 'score'),
      lambda rows: _apart(rows, 'score', 1)
      and rows[0]['user_id'] != paths.EMMA,
  )
  return seek(
      'Who posted the submission with the most points of all time in'
      f' /f/{name}? Answer with the user name.',
      Text(posts[0]['author']),
      *_in_forum(db, name, paths.FORUMS, 'Top'),
      start=paths.FORUMS,
  )


def _linked(posts: Sequence[sqlite3.Row]) -> tuple[str, list[str]] | None:
  """A site that two or three of the first ten link to, and their titles."""
  if len(posts) < 12 or posts[9]['score'] == posts[10]['score']:
    return None
  hosts = [host(x['url']) if x['url'] else '' for x in posts[:10]]
  for each in sorted(set(hosts) - {''}):
    if hosts.count(each) in (2, 3):
      pairs = zip(posts[:10], hosts, strict=True)
      return each, [x['title'] for x, site in pairs if site == each]
  return None


def _top_links(db: t.Db, k: int) -> t.Task:
  name, (site, titles) = paths.pick_forum(
      db,
      k,
      lambda row: _linked(_by(db, 'score')(row)),
      lambda links: links is not None,
      first=5,
  )
  return seek(
      f'Look at the 10 submissions of /f/{name} that have the most points of'
      f' all time. Which of them link to {site}? Give their titles, separated'
      ' by semicolons.',
      Several([Text(x) for x in titles]),
      *_in_forum(db, name, paths.FORUMS, 'Top'),
      start=paths.FORUMS,
  )


def _disliked(db: t.Db, k: int) -> t.Task:
  def find(row: sqlite3.Row) -> tuple[int, int]:
    """The author of the newest submission, and that user's bad comments."""
    author = db.value(
        'SELECT user_id FROM submissions WHERE forum_id = ? ORDER BY created_at'
        ' DESC LIMIT 1',
        row['id'],
    )
    bad = 'SELECT count(*) FROM replies WHERE user_id = ? AND score < 0'
    return author, db.value(bad, author)

  name, (author, bad) = paths.pick_forum(
      db,
      k,
      find,
      lambda pair: pair[0] != paths.EMMA
      and pair[1] > 3
      and not paths.guessed(pair[1]),
  )
  user = db.value('SELECT name FROM users WHERE id = ?', author)
  many = db.value('SELECT count(*) FROM comments WHERE user_id = ?', author)
  return seek(
      f'Take the user who posted the newest submission in /f/{name}. How many'
      ' of the comments that this user has written, anywhere, have a score'
      ' below zero? Answer with a number.',
      Number(str(bad), 'comments'),
      *_in_forum(db, name, paths.HOME, 'New', user, 'Comments'),
      *(t.link('Next'),) * ((many - 1) // 20),
  )


def _created(db: t.Db, k: int) -> t.Task:
  name, forum = paths.pick_forum(db, k, first=20)
  return seek(
      f'When was the forum /f/{name} created? Answer with the date.',
      Date(forum['created_at'][:10]),
      *_in_forum(db, name, paths.HOME),
  )


def _subscribers(db: t.Db, k: int) -> t.Task:
  name, many = paths.pick_forum(
      db,
      k,
      lambda row: db.value(
          'SELECT count(*) FROM subscriptions WHERE forum_id = ?', row['id']
      ),
      lambda many: not paths.guessed(many),
      first=7,
  )
  return seek(
      f'How many subscribers does /f/{name} have? Answer with a number.',
      Number(str(many), 'subscribers'),
      *_in_forum(db, name, paths.HOME),
  )


def _rank(db: t.Db, k: int) -> t.Task:
  forums = db.rows(
      'SELECT f.name, count(*) AS many FROM forums f JOIN subscriptions s ON'
      ' s.forum_id = f.id GROUP BY f.id ORDER BY many DESC, f.name'
  )
  counts = [row['many'] for row in forums]
  places = [n for n in range(1, len(_RANKS)) if counts.count(counts[n]) == 1]
  place = places[k * len(places) // 5]
  name = forums[place]['name']
  return seek(
      f'Which forum has the {_RANKS[place]} subscribers of all? Answer with its'
      ' name as in its address, after /f/.',
      Text(name, (f'/f/{name}', f'f/{name}')),
      t.link('Forums'),
      t.link('By subscribers'),
      start=paths.MESSAGES,
  )


def _comments(db: t.Db, key: int) -> list[sqlite3.Row]:
  """The comments of a submission, best first."""
  return db.rows(
      'SELECT * FROM replies WHERE submission_id = ? ORDER BY score DESC, id',
      key,
  )


def _pick_thread(
    db: t.Db, k: int, low: int, fits: Callable[[list[sqlite3.Row]], bool]
) -> tuple[sqlite3.Row, list[sqlite3.Row]]:
  """The k-th submission whose comments fit, and these comments.

  Args:
    db: the records.
    k: from 0.
    low: the first id; later ones are looked at too.
    fits: says so of the comments, best first; there are 6 to 14.

  Raises:
    LookupError: fewer fit.
  """
  rows = db.rows(
      'SELECT submission_id AS id FROM comments WHERE submission_id BETWEEN ?'
      ' AND ? GROUP BY 1 HAVING count(*) BETWEEN 6 AND 14',
      low,
      low + 250,
  )
  for row in pick.mixed(rows):
    comments = _comments(db, row['id'])
    if fits(comments):
      if k == 0:
        return paths.post_of(db, row['id']), comments
      k -= 1
  raise LookupError('too few submissions fit.')


def _writers(comments: Sequence[sqlite3.Row]) -> list[tuple[int, str]]:
  """How many of the comments each user wrote, the busiest first."""
  names = [x['author'] for x in comments]
  return sorted(((names.count(x), x) for x in set(names)), reverse=True)


def _best_comment(db: t.Db, k: int) -> t.Task:
  post, comments = _pick_thread(
      db,
      k,
      100,
      lambda rows: rows[0]['score'] > rows[1]['score']
      and rows[0]['user_id'] != paths.EMMA,
  )
  return seek(
      'Who wrote the comment with the most points under the submission'
      f' "{post["title"]}"? Answer with the user name.',
      Text(comments[0]['author']),
      *paths.find_post(post['title']),
      start=paths.FORUMS,
  )


def _answered(
    comments: Sequence[sqlite3.Row],
) -> tuple[sqlite3.Row, sqlite3.Row] | None:
  """A user's only comment there, and the only reply to it."""
  for row in comments:
    below = [x for x in comments if x['parent_id'] == row['id']]
    alone = sum(x['user_id'] == row['user_id'] for x in comments) == 1
    if (
        len(below) == 1
        and alone
        and paths.EMMA not in (row['user_id'], below[0]['user_id'])
    ):
      return row, below[0]
  return None


def _answered_by(db: t.Db, k: int) -> t.Task:
  post, comments = _pick_thread(
      db, k, 350, lambda rows: _answered(rows) is not None
  )
  answered = _answered(comments)
  assert answered is not None  # the thread was picked for it
  comment, reply = answered
  return seek(
      f'Under the submission "{post["title"]}" the user {comment["author"]}'
      ' wrote one comment, which got a single direct reply. Who wrote that'
      ' reply? Answer with the user name.',
      Text(reply['author']),
      *paths.find_post(post['title']),
      start=paths.FORUMS,
  )


def _address(db: t.Db, k: int) -> t.Task:
  post = paths.pick_post(db, k + 20, 's.url IS NOT NULL')
  return seek(
      f'Which address does the submission "{post["title"]}" link to? Answer'
      ' with the whole URL.',
      Text(post['url']),
      *paths.find_post(post['title']),
      start=paths.FORUMS,
  )


def _most_commented(db: t.Db, k: int) -> t.Task:
  name, posts = paths.pick_forum(
      db,
      k,
      _by(db, 'comments'),
      lambda rows: _apart(rows, 'comments', 1),
      first=10,
  )
  return seek(
      f'What is the title of the submission in /f/{name} that has the most'
      ' comments of all time?',
      Text(posts[0]['title']),
      *_in_forum(db, name, paths.FORUMS, 'Most commented'),
      start=paths.FORUMS,
  )


def _top_month(db: t.Db, k: int) -> t.Task:
  def find(row: sqlite3.Row) -> tuple[list[sqlite3.Row], int]:
    recent = _by(db, 'score', _MONTH_AGO)(row)
    return recent, _by(db, 'score')(row)[0]['id']

  name, (posts, _) = paths.pick_forum(
      db,
      k,
      find,
      lambda pair: len(pair[0]) > 3
      and pair[0][0]['id'] != pair[1]
      and not paths.guessed(pair[0][0]['score']),
      first=15,
  )
  return seek(
      f'Among those submissions in /f/{name} that the forum lists for the past'
      ' month, how many points does the one with the most points have? Answer'
      ' with a number.',
      Number(str(posts[0]['score']), 'points'),
      *_in_forum(db, name, paths.HOME, 'Top', 'Past month'),
  )


def _last_commented(db: t.Db, k: int) -> t.Task:
  name, posts = paths.pick_forum(
      db,
      k,
      _by(db, 'coalesce(commented_at, created_at)'),
      lambda rows: rows[0]['commented_at'] is not None
      and rows[0]['commented_at'] != rows[1]['commented_at'],
      first=4,
  )
  return seek(
      f'Which submission in /f/{name} got the most recent comment? Answer with'
      ' its title.',
      Text(posts[0]['title']),
      *_in_forum(db, name, paths.FORUMS, 'Active'),
      start=paths.FORUMS,
  )


def _moderators(db: t.Db, k: int) -> t.Task:
  def find(row: sqlite3.Row) -> list[str]:
    rows = db.rows(
        'SELECT u.name FROM moderators m JOIN users u ON u.id = m.user_id'
        ' WHERE m.forum_id = ? ORDER BY m.id',
        row['id'],
    )
    return [x['name'] for x in rows]

  name, names = paths.pick_forum(
      db,
      k,
      find,
      lambda names: len(names) > 2 and 'emma' not in names,
      first=11,
  )
  return seek(
      f'Who are the moderators of /f/{name}? Give all user names,'
      ' separated by semicolons.',
      Several([Text(x) for x in names]),
      *_in_forum(db, name, paths.FORUMS),
      start=paths.FORUMS,
  )


def _sum_of_top(db: t.Db, k: int) -> t.Task:
  name, posts = paths.pick_forum(
      db, k, _by(db, 'score'), lambda rows: _apart(rows, 'score', 3), first=25
  )
  return seek(
      'How many points do the three submissions with the most points of all'
      f' time in /f/{name} have together? Answer with a number.',
      Number(str(sum(row['score'] for row in posts[:3])), 'points'),
      *_in_forum(db, name, paths.HOME, 'Top'),
  )


def _lead(db: t.Db, k: int) -> t.Task:
  lead = lambda rows: rows[0]['score'] - rows[1]['score']
  name, posts = paths.pick_forum(
      db,
      k,
      _by(db, 'score'),
      lambda rows: _apart(rows, 'score', 2) and not paths.guessed(lead(rows)),
      first=30,
  )
  return seek(
      f'In /f/{name}, how many points does the submission with the most points'
      ' of all time have more than the second one? Answer with a number.',
      Number(str(lead(posts)), 'points'),
      *_in_forum(db, name, paths.HOME, 'Top'),
  )


def _busiest(db: t.Db, k: int) -> t.Task:
  def fits(rows: list[sqlite3.Row]) -> bool:
    (first, name), (second, _) = _writers(rows)[:2]
    return first > max(1, second) and name != 'emma'

  post, comments = _pick_thread(db, k, 600, fits)
  return seek(
      'Which user wrote the largest number of comments under the submission'
      f' "{post["title"]}"? Answer with the user name.',
      Text(_writers(comments)[0][1]),
      *paths.find_post(post['title']),
      start=paths.FORUMS,
  )


def _worst_comment(db: t.Db, k: int) -> t.Task:
  post, comments = _pick_thread(db, k, 850, lambda rows: rows[-1]['score'] < -3)
  return seek(
      'How many points does the worst rated comment under the submission'
      f' "{post["title"]}" have? Answer with a number, which is below zero.',
      Number(str(comments[-1]['score']), 'points'),
      *paths.find_post(post['title']),
  )


def _comment_points(db: t.Db, k: int) -> t.Task:
  def find(rows: Sequence[sqlite3.Row]) -> sqlite3.Row | None:
    alone = {name for many, name in _writers(rows) if many == 1}
    middle = rows[len(rows) // 3]
    fits = middle['author'] in alone - {'emma'} and middle['score'] > 10
    return middle if fits and middle['score'] != 100 else None

  post, comments = _pick_thread(
      db, k, 1100, lambda rows: find(rows) is not None
  )
  comment = find(comments)
  assert comment is not None  # the thread was picked for it
  return seek(
      f'How many points has the comment that {comment["author"]} wrote under'
      f' the submission "{post["title"]}"? Answer with a number.',
      Number(str(comment['score']), 'points'),
      *paths.find_post(post['title']),
  )


TEMPLATES = (
    t.Template('forum/top_author', t.SEEK, _top_author, 5, (17,)),
    t.Template('forum/top_links', t.SEEK, _top_links, 5, (17,)),
    t.Template('forum/disliked_comments', t.SEEK, _disliked, 5, (33,)),
    t.Template('forum/forum_created', t.SEEK, _created, 5),
    t.Template('forum/subscribers', t.SEEK, _subscribers, 5),
    t.Template('forum/subscriber_rank', t.SEEK, _rank, 5),
    t.Template('forum/best_comment', t.SEEK, _best_comment, 5),
    t.Template('forum/answered_by', t.SEEK, _answered_by, 5),
    t.Template('forum/link_address', t.SEEK, _address, 5),
    t.Template('forum/most_commented', t.SEEK, _most_commented, 5),
    t.Template('forum/top_of_month', t.SEEK, _top_month, 5),
    t.Template('forum/last_commented', t.SEEK, _last_commented, 5),
    t.Template('forum/moderators', t.SEEK, _moderators, 5),
    t.Template('forum/sum_of_top', t.SEEK, _sum_of_top, 5),
    t.Template('forum/lead', t.SEEK, _lead, 5),
    t.Template('forum/busiest', t.SEEK, _busiest, 5),
    t.Template('forum/worst_comment', t.SEEK, _worst_comment, 5),
    t.Template('forum/comment_points', t.SEEK, _comment_points, 5),
)
