"""Tasks that end on a page."""

from agentrl.sites import seed_data, task as t
from agentrl.sites.forum.pages import show
from agentrl.sites.forum.tasks import paths
from agentrl.sites.forum.tasks.paths import go

_VALUES = seed_data.read(__file__)
_WORDS = ('telescope', 'sourdough', 'hostel', 'budget sheet', 'greenhouse')


def _newest(db: t.Db, k: int) -> t.Task:
  name = paths.pick_forum(db, k)[0]
  return go(
      f'Show the submissions of /f/{name} with the newest ones first.',
      f'f/{name}/new',
      t.link('New'),
      start=f'f/{name}',
  )


def _open(db: t.Db, k: int) -> t.Task:
  name, forum = paths.pick_forum(db, k)
  posts = paths.ranked(db, forum['id'], 'score')[:12]
  post = posts[(5 * k) % len(posts)]
  return go(
      f'Open the submission "{post["title"]}".',
      show.path(post),
      t.link(post['title']),
      start=f'f/{name}/top',
  )


def _top(db: t.Db, k: int) -> t.Task:
  time, label, words = _VALUES['times'][k]
  name = paths.pick_forum(db, 3 * k + 2)[0]
  return go(
      f'Show the submissions of /f/{name} from {words}, ordered by their'
      ' points.',
      f'f/{name}/top?t={time}',
      *paths.to_forum(db, name, at_home=True),
      t.link('Top'),
      t.link(label),
  )


def _comments_of(db: t.Db, k: int) -> t.Task:
  post = paths.pick_post(db, k + 70, 's.user_id != 1')
  return go(
      f'Show all comments of the user who submitted "{post["title"]}".',
      f'user/{post["author"]}/comments',
      *paths.find_post(post['title']),
      t.link(post['author'], after='Submitted by'),
      t.link('Comments', nth=2),
  )


def _table(_: t.Db, k: int) -> t.Task:
  sort, page = _VALUES['tables'][k]
  return go(
      f'Show page {page} of the list of all forums, ordered by {sort}.',
      f'forums?sort={sort}&page={page}',
      t.link('Forums'),
      t.link(f'By {sort}'),
      *(t.link('Next'),) * (page - 1),
  )


def _search(db: t.Db, k: int) -> t.Task:
  words = _WORDS[k]
  pattern = [f'%{word}%' for word in words.split()]
  where = ' AND '.join(['body LIKE ?'] * len(pattern))
  many = db.value(f'SELECT count(*) FROM comments WHERE {where}', *pattern)
  return go(
      f'Search for "{words}" and show the comments that are found, the ones'
      ' with the most points first.',
      f'search?q={words.replace(" ", "+")}&type=comments&sort=top',
      paths.search(words),
      t.link(f'Comments ({many})'),
      t.link('Top'),
  )


def _own_page(_: t.Db, k: int) -> t.Task:
  entry, path, words = _VALUES['pages'][k]
  return go(f'Go to {words}.', path, *paths.menu(entry))


def _second(db: t.Db, k: int) -> t.Task:
  name, posts = paths.pick_forum(
      db,
      k,
      lambda row: paths.ranked(db, row['id'], 'score'),
      lambda rows: rows[0]['score'] > rows[1]['score'] > rows[2]['score'],
      first=18,
  )
  post = posts[1]
  return go(
      f'Open the submission of /f/{name} that has the second most points of all'
      ' time.',
      show.path(post),
      *paths.to_forum(db, name, at_home=True),
      t.link('Top'),
      t.link(post['title']),
  )


def _moderator(db: t.Db, k: int) -> t.Task:
  row = db.row_mixed(
      k,
      'SELECT f.id, f.name AS forum, u.name FROM forums f JOIN moderators m ON'
      ' m.forum_id = f.id JOIN users u ON u.id = m.user_id GROUP BY f.id HAVING'
      " m.id = min(m.id) AND u.name != 'emma'",
  )
  return go(
      'Show all submissions of the user who stands first among the moderators'
      f' of /f/{row["forum"]}.',
      f'user/{row["name"]}/submissions',
      *paths.to_forum(db, row['forum'], at_home=True),
      t.link(row['name'], after='Moderators'),
      t.link('Submissions'),
  )


TEMPLATES = (
    t.Template('forum/newest', t.GO, _newest, 40),
    t.Template('forum/open', t.GO, _open, 40),
    t.Template('forum/top', t.GO, _top, 5),
    t.Template('forum/comments_of', t.GO, _comments_of, 5),
    t.Template('forum/table', t.GO, _table, 5),
    t.Template('forum/search', t.GO, _search, 5),
    t.Template('forum/own_page', t.GO, _own_page, 5),
    t.Template('forum/second', t.GO, _second, 5),
    t.Template('forum/moderator', t.GO, _moderator, 5),
)
