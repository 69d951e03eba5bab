"""Tasks that change something else than the list of submissions."""

import sqlite3
from collections.abc import Sequence

from agentrl.sites.forum.pages import show
from agentrl.sites.forum.tasks import picking
from agentrl.sites.forum.tasks.picking import HOME
from agentrl.sites.goals import ADDED, CHANGED, REMOVED, Goal, New, Row
from agentrl.sites.task import (
    CHANGE,
    Step,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
    stop,
)

_BIOGRAPHIES = (
    'I repair clocks and read at night.',
    'Gone fishing until September.',
    'Python, pottery and parsnips.',
    'I am new here, please be patient with me.',
    'Two cats, one garden, no car.',
)
# Name, title, description, sidebar.
_FORUMS = (
    ('sci_fi_corner', 'Science fiction corner', 'Futures that never came.',
     ('New', 'Classic', 'Movies')),
    ('night_trains', 'Night trains', 'Sleeping while moving.',
     ('Routes', 'Tickets', 'Trip reports')),
    ('PaperBoats', 'Paper boats', 'Folding and floating.',
     ('Patterns', 'Paper', 'Races')),
    ('lost_recipes', 'Lost recipes', 'Dishes that nobody cooks any more.',
     ('Soups', 'Breads', 'Puddings')),
    ('tiny_gardens', 'Tiny gardens', 'Plants on one square metre.',
     ('Balcony', 'Window', 'Rooftop')),
)  # fmt: skip
_LINES = (
    'EDIT: problem solved, thank you all.',
    'EDIT: this aged well.',
    'EDIT: pictures will follow on Sunday.',
    'EDIT: I was wrong about this.',
    'EDIT: no more messages, please.',
)
_REPLIES = (
    'Thank you, that helped me a lot.',
    'Do not panic.',
    'I have tried that and it works.',
    'Could you explain this a bit more?',
    'We should compare notes one day.',
)
_MESSAGES = (
    ('Your last comment', 'May I quote it in my newsletter?'),
    ('Question', 'Do you still have the old map?'),
    ('Thanks', 'Your tip saved my holiday.'),
    ('Meetup', 'Are you coming on Saturday?'),
    ('Typo', 'There is a small typo in your latest title.'),
)
_NOTES = (
    'too many adverts', 'sends me riddles', 'copies my titles',
    'writes in capitals', 'argues about commas',
)  # fmt: skip
# Labels and values of two preferences.
_PREFERENCES = (
    (('Theme', 'Dark', 'theme', 'dark'),
     ('Front page', 'All forums', 'front_page', 'all')),
    (('Default sort', 'New', 'front_sort', 'new'),
     ('Theme', 'Sepia', 'theme', 'sepia')),
    (('Receive messages from', 'Moderators', 'messages_from', 'moderators'),
     ('Default sort', 'Active', 'front_sort', 'active')),
    (('Front page', 'Moderated forums', 'front_page', 'moderated'),
     ('Default sort', 'Top', 'front_sort', 'top')),
    (('Theme', 'Dark', 'theme', 'dark'),
     ('Receive messages from', 'Nobody', 'messages_from', 'nobody')),
)  # fmt: skip
_SIDEBARS = (
    ('birdwatching', 'No nests, no exact places. Enjoy the birds.'),
    ('lakewood', 'Be a good neighbour. Lost and found goes on Mondays.'),
    ('birdwatching', 'Tell us the date and the weather of each sighting.'),
    ('lakewood', 'No politics in June. Events need a date in the title.'),
    ('birdwatching', 'Photographs of chicks are not welcome here.'),
)


def _task(
    intent: str,
    rows: Sequence[Row],
    steps: Sequence[Step],
    *,
    start: str = HOME,
    url: str | None = None,
) -> Task:
  return Task(
      intent=intent,
      goal=Goal(rows=rows, url=url),
      steps=(*steps, stop()),
      start=(start,),
  )


def _vote(post: sqlite3.Row, choice: int) -> Row:
  return Row(
      'forum.submission_votes',
      ADDED,
      {
          'submission_id': post['id'],
          'user_id': picking.EMMA,
          'choice': choice,
      },
  )


def _subscription(forum_id: int) -> Row:
  return Row(
      'forum.subscriptions',
      ADDED,
      {'forum_id': forum_id, 'user_id': picking.EMMA},
  )


def _is_foreign(stores: Stores, forum_id: int) -> bool:
  """True if the visitor is not subscribed to a forum."""
  return not picking.rows(
      stores,
      'SELECT 1 FROM subscriptions WHERE forum_id = ? AND user_id = 1',
      forum_id,
  )


def _subscribe(stores: Stores, k: int) -> Task:
  forum, _ = picking.pick_forum(
      stores, k, lambda row: _is_foreign(stores, row['id']), bool
  )
  name = forum['name']
  place = picking.one(
      stores, 'SELECT count(*) FROM forums WHERE lower(name) < lower(?)', name
  )
  return _task(
      f'Subscribe to the forum {name}.',
      (_subscription(forum['id']),),
      (click_on('button', 'Subscribe', after=name),),
      start=f'http://forum/forums?page={1 + place // 20}',
  )


def _upvote(stores: Stores, k: int) -> Task:
  forum, _ = picking.pick_forum(stores, k)
  found = [
      x
      for x in picking.ranked(stores, forum['id'], 'created_at')[:15]
      if not x['vote'] and x['user_id'] != picking.EMMA
  ]
  post = found[k % len(found)]
  return _task(
      f'Upvote the submission "{post["title"]}".',
      (_vote(post, 1),),
      (click_on('button', 'Upvote', after=post['title']),),
      start=f'http://forum/f/{forum["name"]}/new',
  )


def _discussed(stores: Stores, k: int) -> Task:
  forum, found = picking.pick_forum(
      stores,
      k,
      lambda row: _is_foreign(stores, row['id'])
      and picking.ranked(stores, row['id'], 'comments'),
      lambda found: found and found[0]['comments'] > found[1]['comments'],
      first=2,
  )
  name, post = forum['name'], found[0]
  return _task(
      f'Subscribe to /f/{name} and then open the submission there that has the'
      ' most comments of all time.',
      (_subscription(forum['id']),),
      (
          *picking.to_forum(stores, name, at_home=True),
          click_on('button', 'Subscribe'),
          click_on('link', 'Most commented'),
          click_on('link', post['title']),
      ),
      url=f'http://forum{show.path(post)}',
  )


def _biography(stores: Stores, k: int) -> Task:
  del stores
  text = _BIOGRAPHIES[k]
  return _task(
      f'Change the biography of my profile to: "{text}"',
      (Row('forum.users', CHANGED, {'biography': text}, picking.EMMA),),
      (
          *picking.menu('Profile'),
          click_on('link', 'Edit biography'),
          fill('Biography', text),
          click_on('button', 'Save biography'),
      ),
  )


def _create_forum(stores: Stores, k: int) -> Task:
  del stores
  name, title, about, entries = _FORUMS[k]
  values = {
      'name': name,
      'title': title,
      'description': about,
      'sidebar': '\n'.join(entries),
  }
  return _task(
      f'Create a forum with the name {name}, the title "{title}" and the'
      f' description "{about}" Its sidebar has these entries, one on each line:'
      f' {", ".join(entries)}.',
      (
          Row('forum.forums', ADDED, values),
          Row(
              'forum.moderators',
              ADDED,
              {'forum_id': New('forum.forums'), 'user_id': picking.EMMA},
          ),
      ),
      (
          *picking.menu('Create forum'),
          *(fill(column.capitalize(), x) for column, x in values.items()),
          click_on('button', 'Create forum'),
      ),
  )


def _upvote_newest(stores: Stores, k: int) -> Task:
  forum, found = picking.pick_forum(
      stores,
      k,
      lambda row: picking.ranked(stores, row['id'], 'created_at'),
      lambda found: not found[0]['vote']
      and found[0]['user_id'] != picking.EMMA,
      first=10,
  )
  name, post = forum['name'], found[0]
  return _task(
      f'Give an upvote to the newest submission in /f/{name}.',
      (_vote(post, 1),),
      (
          *picking.to_forum(stores, name, at_home=True),
          click_on('link', 'New'),
          click_on('button', 'Upvote', after=post['title']),
      ),
  )


def _reply(stores: Stores, k: int) -> Task:
  found = picking.pick(
      stores,
      k,
      'SELECT r.* FROM replies r WHERE submission_id BETWEEN 400 AND 440 AND'
      ' user_id != 1 AND NOT is_locked AND (SELECT count(*) FROM comments c'
      ' WHERE c.submission_id = r.submission_id AND c.user_id = r.user_id) = 1'
      ' AND (SELECT count(*) FROM comments c WHERE c.submission_id ='
      ' r.submission_id) BETWEEN 4 AND 10',
  )
  post, text = picking.post_of(stores, found['submission_id']), _REPLIES[k]
  return _task(
      f'Reply to the comment that {found["author"]} has written on this page'
      f' with: "{text}"',
      (
          Row(
              'forum.comments',
              ADDED,
              {
                  'submission_id': post['id'],
                  'parent_id': found['id'],
                  'user_id': picking.EMMA,
                  'body': text,
                  'points': 1,
                  'is_deleted': 0,
              },
          ),
      ),
      (
          click_on('link', 'Reply', after=picking.first_line(found['body'])),
          fill(f'Reply to {found["author"]}', text),
          click_on('button', 'Post reply'),
      ),
      start=f'http://forum{show.path(post)}',
  )


def _downvote_top(stores: Stores, k: int) -> Task:
  many = (1, 2, 1, 3, 2)[k]
  forum, found = picking.pick_forum(
      stores,
      0,
      lambda row: picking.ranked(stores, row['id'], 'score'),
      lambda found: found[many - 1]['score'] > found[many]['score'] + 9
      and all(
          not x['vote'] and x['user_id'] != picking.EMMA for x in found[:many]
      ),
      first=7 * k,
  )
  name, posts = forum['name'], found[:many]
  which = {
      1: 'the submission that has',
      2: 'the two submissions that have',
      3: 'the three submissions that have',
  }[many]
  return _task(
      f'Downvote {which} the most points of all time in /f/{name}.',
      tuple(_vote(post, -1) for post in posts),
      (
          *picking.to_forum(stores, name, at_home=True),
          click_on('link', 'Top'),
          # From below: each vote moves a submission down, maybe.
          *(
              click_on('button', 'Downvote', after=post['title'])
              for post in reversed(posts)
          ),
      ),
  )


def _vote_for_all(
    stores: Stores, k: int, choice: int, button: str, verb: str, first: int
) -> Task:
  found = picking.pick(
      stores,
      k + first,
      'SELECT min(s.id) AS id, s.user_id, s.forum_id, u.name AS author, f.name'
      ' AS forum FROM submissions s JOIN users u ON u.id = s.user_id JOIN'
      ' forums f ON f.id = s.forum_id WHERE s.user_id != 1 AND NOT EXISTS'
      ' (SELECT 1 FROM submission_votes v JOIN submissions x ON x.id ='
      ' v.submission_id WHERE x.user_id = s.user_id AND x.forum_id ='
      ' s.forum_id) AND (SELECT count(*) FROM submissions x WHERE x.user_id ='
      ' s.user_id) BETWEEN 3 AND 20 GROUP BY s.user_id, s.forum_id HAVING'
      ' count(*) BETWEEN 2 AND 4',
  )
  posts = picking.rows(
      stores,
      'SELECT * FROM posts WHERE user_id = ? AND forum_id = ? ORDER BY id',
      found['user_id'],
      found['forum_id'],
  )
  return _task(
      f'{verb} everything that {found["author"]} has submitted to'
      f' /f/{found["forum"]}, and nothing from other forums.',
      tuple(_vote(post, choice) for post in posts),
      (
          *picking.find_user(stores, found['author']),
          click_on('link', 'Submissions'),
          *(
              click_on('button', button, after=post['title'])
              for post in reversed(posts)
          ),
      ),
  )


def _like_all(stores: Stores, k: int) -> Task:
  return _vote_for_all(stores, k, 1, 'Upvote', 'Upvote', 0)


def _dislike_all(stores: Stores, k: int) -> Task:
  return _vote_for_all(stores, k, -1, 'Downvote', 'Downvote', 20)


def _add_line(stores: Stores, k: int) -> Task:
  post = picking.pick_post(stores, k, 's.user_id = 1 AND s.body IS NOT NULL')
  text = f'{post["body"]}\n{_LINES[k]}'
  return _task(
      f'Edit my submission "{post["title"]}": add a line to the end of its body'
      f' that says "{_LINES[k]}"',
      (Row('forum.submissions', CHANGED, {'body': text}, post['id']),),
      (
          *picking.find_post(post['title']),
          click_on('link', 'Edit submission'),
          fill('Body', text),
          click_on('button', 'Save changes'),
      ),
  )


def _message(stores: Stores, k: int) -> Task:
  user = picking.pick(stores, k + 25, 'SELECT * FROM users WHERE id != 1')
  title, text = _MESSAGES[k]
  return _task(
      f'Send a private message to {user["name"]} with the subject "{title}" and'
      f' the text "{text}"',
      (
          Row(
              'forum.threads',
              ADDED,
              {
                  'user_id': picking.EMMA,
                  'other_id': user['id'],
                  'title': title,
              },
          ),
          Row(
              'forum.messages',
              ADDED,
              {
                  'thread_id': New('forum.threads'),
                  'user_id': picking.EMMA,
                  'body': text,
              },
          ),
      ),
      (
          *picking.find_user(stores, user['name']),
          click_on('link', 'Send message'),
          fill('Subject', title),
          fill('Message', text),
          click_on('button', 'Send message'),
      ),
  )


def _block(stores: Stores, k: int) -> Task:
  post = picking.pick_post(
      stores,
      k + 40,
      's.user_id != 1 AND s.user_id NOT IN (SELECT blocked_id FROM blocks)',
  )
  return _task(
      f'Block the user who posted "{post["title"]}", with the note'
      f' "{_NOTES[k]}", without the quotes.',
      (
          Row(
              'forum.blocks',
              ADDED,
              {
                  'user_id': picking.EMMA,
                  'blocked_id': post['user_id'],
                  'note': _NOTES[k],
              },
          ),
      ),
      (
          *picking.find_post(post['title']),
          click_on('link', post['author'], after='Submitted by'),
          click_on('link', 'Block this user'),
          fill('Note', _NOTES[k]),
          click_on('button', f'Block {post["author"]}'),
      ),
  )


def _unblock(stores: Stores, k: int) -> Task:
  found = picking.pick(
      stores,
      k,
      'SELECT b.*, u.name FROM blocks b JOIN users u ON u.id = b.blocked_id',
  )
  return _task(
      f'I have blocked one user with the note "{found["note"]}". Unblock this'
      ' user.',
      (Row('forum.blocks', REMOVED, key=found['id']),),
      (
          *picking.menu('Block list'),
          click_on('button', f'Unblock {found["name"]}'),
      ),
  )


def _delete(stores: Stores, k: int) -> Task:
  post = picking.pick_post(stores, k + 9, 's.user_id = 1')
  return _task(
      f'Delete my submission "{post["title"]}".',
      (Row('forum.submissions', CHANGED, {'is_deleted': 1}, post['id']),),
      (
          *picking.find_post(post['title']),
          click_on('link', 'Delete submission'),
          click_on('button', 'Yes, delete it'),
      ),
  )


def _bookmark(stores: Stores, k: int) -> Task:
  forum, found = picking.pick_forum(
      stores,
      k,
      lambda row: picking.ranked(stores, row['id'], 'score'),
      lambda found: found[0]['score'] > found[1]['score']
      and found[0]['bookmark'] is None,
      first=25,
  )
  name, post = forum['name'], found[0]
  return _task(
      f'Bookmark the submission of /f/{name} that has the most points of all'
      ' time.',
      (
          Row(
              'forum.bookmarks',
              ADDED,
              {'submission_id': post['id'], 'user_id': picking.EMMA},
          ),
      ),
      (
          *picking.to_forum(stores, name, at_home=True),
          click_on('link', 'Top'),
          click_on('link', post['title']),
          click_on('button', 'Bookmark'),
      ),
  )


def _preferences(stores: Stores, k: int) -> Task:
  del stores
  chosen = _PREFERENCES[k]
  words = ' and '.join(f'"{label}" to "{name}"' for label, name, *_ in chosen)
  return _task(
      f'In my preferences, set {words}.',
      (
          Row(
              'forum.users',
              CHANGED,
              {column: value for *_, column, value in chosen},
              picking.EMMA,
          ),
      ),
      (
          *picking.menu('Preferences'),
          *(choose(label, name) for label, name, *_ in chosen),
          click_on('button', 'Save preferences'),
      ),
  )


def _sidebar(stores: Stores, k: int) -> Task:
  name, text = _SIDEBARS[k]
  key = picking.one(stores, 'SELECT id FROM forums WHERE name = ?', name)
  return _task(
      f'I moderate /f/{name}. Replace the text of its sidebar by: "{text}"',
      (Row('forum.forums', CHANGED, {'sidebar': text}, key),),
      (
          *picking.to_forum(stores, name, at_home=True),
          click_on('link', 'Edit this forum'),
          fill('Sidebar', text),
          click_on('button', 'Save forum'),
      ),
  )


def _moderate(stores: Stores, k: int) -> Task:
  verb, button, column = (
      ('Lock', 'Lock', 'is_locked'),
      ('Pin', 'Pin', 'is_pinned'),
  )[k % 2]
  post = picking.pick_post(
      stores,
      k,
      's.forum_id IN (SELECT forum_id FROM moderators WHERE user_id = 1) AND'
      ' NOT s.is_locked AND NOT s.is_pinned',
  )
  return _task(
      f'As a moderator of /f/{post["forum"]}, {verb.lower()} the submission'
      f' "{post["title"]}".',
      (Row('forum.submissions', CHANGED, {column: 1}, post['id']),),
      (
          *picking.find_post(post['title']),
          click_on('button', button),
      ),
  )


TEMPLATES = (
    Template('forum/subscribe', CHANGE, _subscribe, 28),
    Template('forum/upvote', CHANGE, _upvote, 40),
    Template('forum/discussed', CHANGE, _discussed, 5, (4,)),
    Template('forum/biography', CHANGE, _biography, 5, (6,)),
    Template('forum/create_forum', CHANGE, _create_forum, 5, (7,)),
    Template('forum/upvote_newest', CHANGE, _upvote_newest, 5, (22,)),
    Template('forum/reply', CHANGE, _reply, 5, (23,)),
    Template('forum/downvote_top', CHANGE, _downvote_top, 5, (24,)),
    Template('forum/like_all', CHANGE, _like_all, 5, (25,)),
    Template('forum/dislike_all', CHANGE, _dislike_all, 5, (1510,)),
    Template('forum/add_line', CHANGE, _add_line, 5, (27,)),
    Template('forum/message', CHANGE, _message, 5),
    Template('forum/block', CHANGE, _block, 5),
    Template('forum/unblock', CHANGE, _unblock, 5),
    Template('forum/delete', CHANGE, _delete, 5),
    Template('forum/bookmark', CHANGE, _bookmark, 5),
    Template('forum/preferences', CHANGE, _preferences, 5),
    Template('forum/sidebar', CHANGE, _sidebar, 5),
    Template('forum/moderate', CHANGE, _moderate, 5),
)
