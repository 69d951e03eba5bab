"""Tasks that end on a page."""

from collections.abc import Sequence

from agentrl.sites.forum.pages import show
from agentrl.sites.forum.tasks import picking
from agentrl.sites.forum.tasks.picking import HOME
from agentrl.sites.goals import Goal
from agentrl.sites.task import GO, Step, Stores, Task, Template, click_on, stop

_TIMES = (
    ('year', 'Past year', 'the past year'),
    ('month', 'Past month', 'the past month'),
    ('week', 'Past week', 'the past week'),
    ('day', 'Past 24 hours', 'the past 24 hours'),
    ('month', 'Past month', 'the past month'),
)
_TABLES = (
    ('title', 2), ('subscribers', 2), ('submissions', 2), ('subscribers', 3),
    ('submissions', 3),
)  # fmt: skip
_WORDS = ('telescope', 'sourdough', 'hostel', 'budget sheet', 'greenhouse')
_PAGES = (
    ('Bookmarks', '/user/emma/bookmarks', 'the list of my bookmarks'),
    ('Block list', '/user/emma/block_list', 'the list of users I have blocked'),
    ('Preferences', '/user/emma/preferences', 'the page of my preferences'),
    ('Replies to me', '/inbox', 'the list of replies to what I wrote'),
    ('Messages', '/messages', 'the list of my private messages'),
)


def _go(
    intent: str, path: str, steps: Sequence[Step], *, start: str = HOME
) -> Task:
  return Task(
      intent=intent,
      goal=Goal(url=f'http://forum{path}'),
      steps=(*steps, stop()),
      start=(start,),
  )


def _newest(stores: Stores, k: int) -> Task:
  name = picking.pick_forum(stores, k)[0]['name']
  return _go(
      f'Show the submissions of /f/{name} with the newest ones first.',
      f'/f/{name}/new',
      (click_on('link', 'New'),),
      start=f'http://forum/f/{name}',
  )


def _open(stores: Stores, k: int) -> Task:
  forum, _ = picking.pick_forum(stores, k)
  found = picking.ranked(stores, forum['id'], 'score')[:12]
  post = found[(5 * k) % len(found)]
  return _go(
      f'Open the submission "{post["title"]}".',
      show.path(post),
      (click_on('link', post['title']),),
      start=f'http://forum/f/{forum["name"]}/top',
  )


def _top(stores: Stores, k: int) -> Task:
  time, label, words = _TIMES[k]
  name = picking.pick_forum(stores, 3 * k + 2)[0]['name']
  return _go(
      f'Show the submissions of /f/{name} from {words}, ordered by their'
      ' points.',
      f'/f/{name}/top?t={time}',
      (
          *picking.to_forum(stores, name, at_home=True),
          click_on('link', 'Top'),
          click_on('link', label),
      ),
  )


def _comments_of(stores: Stores, k: int) -> Task:
  post = picking.pick_post(stores, k + 70, 's.user_id != 1')
  return _go(
      f'Show all comments of the user who submitted "{post["title"]}".',
      f'/user/{post["author"]}/comments',
      (
          *picking.find_post(post['title']),
          click_on('link', post['author'], after='Submitted by'),
          click_on('link', 'Comments', nth=2),
      ),
  )


def _table(stores: Stores, k: int) -> Task:
  del stores
  sort, page = _TABLES[k]
  return _go(
      f'Show page {page} of the list of all forums, ordered by {sort}.',
      f'/forums?sort={sort}&page={page}',
      (
          click_on('link', 'Forums'),
          click_on('link', f'By {sort}'),
          *(click_on('link', 'Next'),) * (page - 1),
      ),
  )


def _search(stores: Stores, k: int) -> Task:
  words = _WORDS[k]
  pattern = [f'%{word}%' for word in words.split()]
  where = ' AND '.join(['body LIKE ?'] * len(pattern))
  many = picking.one(
      stores, f'SELECT count(*) FROM comments WHERE {where}', *pattern
  )
  return _go(
      f'Search for "{words}" and show the comments that are found, the ones'
      ' with the most points first.',
      f'/search?q={words.replace(" ", "+")}&type=comments&sort=top',
      (
          picking.search(words),
          click_on('link', f'Comments ({many})'),
          click_on('link', 'Top'),
      ),
  )


def _own_page(stores: Stores, k: int) -> Task:
  del stores
  entry, path, words = _PAGES[k]
  return _go(f'Go to {words}.', path, picking.menu(entry))


def _second(stores: Stores, k: int) -> Task:
  forum, found = picking.pick_forum(
      stores,
      k,
      lambda row: picking.ranked(stores, row['id'], 'score'),
      lambda found: found[0]['score'] > found[1]['score'] > found[2]['score'],
      first=18,
  )
  name, post = forum['name'], found[1]
  return _go(
      f'Open the submission of /f/{name} that has the second most points of all'
      ' time.',
      show.path(post),
      (
          *picking.to_forum(stores, name, at_home=True),
          click_on('link', 'Top'),
          click_on('link', post['title']),
      ),
  )


def _moderator(stores: Stores, k: int) -> Task:
  found = picking.pick(
      stores,
      k,
      'SELECT f.id, f.name AS forum, u.name FROM forums f JOIN moderators m ON'
      ' m.forum_id = f.id JOIN users u ON u.id = m.user_id GROUP BY f.id HAVING'
      " m.id = min(m.id) AND u.name != 'emma'",
  )
  return _go(
      'Show all submissions of the user who stands first among the moderators'
      f' of /f/{found["forum"]}.',
      f'/user/{found["name"]}/submissions',
      (
          *picking.to_forum(stores, found['forum'], at_home=True),
          click_on('link', found['name'], after='Moderators'),
          click_on('link', 'Submissions'),
      ),
  )


TEMPLATES = (
    Template('forum/newest', GO, _newest, 40),
    Template('forum/open', GO, _open, 40),
    Template('forum/top', GO, _top, 5),
    Template('forum/comments_of', GO, _comments_of, 5),
    Template('forum/table', GO, _table, 5),
    Template('forum/search', GO, _search, 5),
    Template('forum/own_page', GO, _own_page, 5),
    Template('forum/second', GO, _second, 5),
    Template('forum/moderator', GO, _moderator, 5),
)
