"""Tasks that change something else than the list of submissions."""

import sqlite3

from agentrl.sites import seed_data, task as t
from agentrl.sites.forum.pages import show
from agentrl.sites.forum.tasks import paths
from agentrl.sites.forum.tasks.paths import change
from agentrl.sites.goals import New, Row, added, changed, removed

_VALUES = seed_data.read(__file__)
_LINES = _VALUES['lines']
_NOTES = _VALUES['notes']


def _vote(post: sqlite3.Row, choice: int) -> Row:
  return added(
      'forum.submission_votes',
      submission_id=post['id'],
      user_id=paths.EMMA,
      choice=choice,
  )


def _subscription(forum_id: int) -> Row:
  return added('forum.subscriptions', forum_id=forum_id, user_id=paths.EMMA)


def _is_foreign(db: t.Db, forum_id: int) -> bool:
  """True if the visitor is not subscribed to a forum."""
  return not db.rows(
      'SELECT 1 FROM subscriptions WHERE forum_id = ? AND user_id = 1', forum_id
  )


def _subscribe(db: t.Db, k: int) -> t.Task:
  name, forum = paths.pick_forum(
      db, k, fits=lambda row: _is_foreign(db, row['id'])
  )
  place = db.value(
      'SELECT count(*) FROM forums WHERE lower(name) < lower(?)', name
  )
  return change(
      f'Subscribe to the forum {name}.',
      _subscription(forum['id']),
      t.button('Subscribe', after=name),
      start=f'forums?page={1 + place // 20}',
  )


def _upvote(db: t.Db, k: int) -> t.Task:
  name, forum = paths.pick_forum(db, k)
  posts = [
      x
      for x in paths.ranked(db, forum['id'], 'created_at')[:15]
      if not x['vote'] and x['user_id'] != paths.EMMA
  ]
  post = posts[k % len(posts)]
  return change(
      f'Upvote the submission "{post["title"]}".',
      _vote(post, 1),
      t.button('Upvote', after=post['title']),
      start=f'f/{name}/new',
  )


def _discussed(db: t.Db, k: int) -> t.Task:
  name, posts = paths.pick_forum(
      db,
      k,
      lambda row: _is_foreign(db, row['id'])
      and paths.ranked(db, row['id'], 'comments'),
      lambda rows: rows and rows[0]['comments'] > rows[1]['comments'],
      first=2,
  )
  post = posts[0]
  return change(
      f'Subscribe to /f/{name} and then open the submission there that has the'
      ' most comments of all time.',
      _subscription(post['forum_id']),
      *paths.to_forum(db, name, at_home=True),
      t.button('Subscribe'),
      t.link('Most commented'),
      t.link(post['title']),
      at=show.path(post),
  )


def _biography(_: t.Db, k: int) -> t.Task:
  text = _VALUES['biographies'][k]
  return change(
      f'Change the biography of my profile to: "{text}"',
      changed('forum.users', paths.EMMA, biography=text),
      *paths.menu('Profile'),
      t.link('Edit biography'),
      t.fill('Biography', text),
      t.button('Save biography'),
  )


def _create_forum(_: t.Db, k: int) -> t.Task:
  name, title, about, entries = _VALUES['forums'][k]
  values = {
      'name': name,
      'title': title,
      'description': about,
      'sidebar': '\n'.join(entries),
  }
  return change(
      f'Create a forum with the name {name}, the title "{title}" and the'
      f' description "{about}" Its sidebar has these entries, one on each line:'
      f' {", ".join(entries)}.',
      (
          added('forum.forums', **values),
          added(
              'forum.moderators',
              forum_id=New('forum.forums'),
              user_id=paths.EMMA,
          ),
      ),
      *paths.menu('Create forum'),
      *(t.fill(column.capitalize(), x) for column, x in values.items()),
      t.button('Create forum'),
  )


def _upvote_newest(db: t.Db, k: int) -> t.Task:
  name, posts = paths.pick_forum(
      db,
      k,
      lambda row: paths.ranked(db, row['id'], 'created_at'),
      lambda rows: not rows[0]['vote'] and rows[0]['user_id'] != paths.EMMA,
      first=10,
  )
  post = posts[0]
  return change(
      f'Give an upvote to the newest submission in /f/{name}.',
      _vote(post, 1),
      *paths.to_forum(db, name, at_home=True),
      t.link('New'),
      t.button('Upvote', after=post['title']),
  )


def _reply(db: t.Db, k: int) -> t.Task:
  comment = db.row_mixed(
      k,
      'SELECT r.* FROM replies r WHERE submission_id BETWEEN 400 AND 440 AND'
      ' user_id != 1 AND NOT is_locked AND (SELECT count(*) FROM comments c'
      ' WHERE c.submission_id = r.submission_id AND c.user_id = r.user_id) = 1'
      ' AND (SELECT count(*) FROM comments c WHERE c.submission_id ='
      ' r.submission_id) BETWEEN 4 AND 10',
  )
  post, text = (
      paths.post_of(db, comment['submission_id']),
      _VALUES['replies'][k],
  )
  return change(
      f'Reply to the comment that {comment["author"]} has written on this page'
      f' with: "{text}"',
      added(
          'forum.comments',
          submission_id=post['id'],
          parent_id=comment['id'],
          user_id=paths.EMMA,
          body=text,
          points=1,
          is_deleted=0,
      ),
      t.link('Reply', after=paths.first_line(comment['body'])),
      t.fill(f'Reply to {comment["author"]}', text),
      t.button('Post reply'),
      start=show.path(post),
  )


def _downvote_top(db: t.Db, k: int) -> t.Task:
  many = (1, 2, 1, 3, 2)[k]
  name, ranking = paths.pick_forum(
      db,
      0,
      lambda row: paths.ranked(db, row['id'], 'score'),
      lambda rows: rows[many - 1]['score'] > rows[many]['score'] + 9
      and all(
          not x['vote'] and x['user_id'] != paths.EMMA for x in rows[:many]
      ),
      first=7 * k,
  )
  posts = ranking[:many]
  which = {
      1: 'the submission that has',
      2: 'the two submissions that have',
      3: 'the three submissions that have',
  }[many]
  return change(
      f'Downvote {which} the most points of all time in /f/{name}.',
      tuple(_vote(post, -1) for post in posts),
      *paths.to_forum(db, name, at_home=True),
      t.link('Top'),
      # From below: each vote moves a submission down, maybe.
      *(t.button('Downvote', after=post['title']) for post in reversed(posts)),
  )


def _vote_for_all(
    db: t.Db, k: int, choice: int, button: str, verb: str, first: int
) -> t.Task:
  row = db.row_mixed(
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
  posts = db.rows(
      'SELECT * FROM posts WHERE user_id = ? AND forum_id = ? ORDER BY id',
      row['user_id'],
      row['forum_id'],
  )
  return change(
      f'{verb} everything that {row["author"]} has submitted to'
      f' /f/{row["forum"]}, and nothing from other forums.',
      tuple(_vote(post, choice) for post in posts),
      *paths.find_user(db, row['author']),
      t.link('Submissions'),
      *(t.button(button, after=post['title']) for post in reversed(posts)),
  )


def _like_all(db: t.Db, k: int) -> t.Task:
  return _vote_for_all(db, k, 1, 'Upvote', 'Upvote', 0)


def _dislike_all(db: t.Db, k: int) -> t.Task:
  return _vote_for_all(db, k, -1, 'Downvote', 'Downvote', 20)


def _add_line(db: t.Db, k: int) -> t.Task:
  post = paths.pick_post(db, k, 's.user_id = 1 AND s.body IS NOT NULL')
  text = f'{post["body"]}\n{_LINES[k]}'
  return change(
      f'Edit my submission "{post["title"]}": add a line to the end of its body'
      f' that says "{_LINES[k]}"',
      changed('forum.submissions', post['id'], body=text),
      *paths.find_post(post['title']),
      t.link('Edit submission'),
      t.fill('Body', text),
      t.button('Save changes'),
  )


def _message(db: t.Db, k: int) -> t.Task:
  user = db.row_mixed(k + 25, 'SELECT * FROM users WHERE id != 1')
  title, text = _VALUES['messages'][k]
  return change(
      f'Send a private message to {user["name"]} with the subject "{title}" and'
      f' the text "{text}"',
      (
          added(
              'forum.threads',
              user_id=paths.EMMA,
              other_id=user['id'],
              title=title,
          ),
          added(
              'forum.messages',
              thread_id=New('forum.threads'),
              user_id=paths.EMMA,
              body=text,
          ),
      ),
      *paths.find_user(db, user['name']),
      t.link('Send message'),
      t.fill('Subject', title),
      t.fill('Message', text),
      t.button('Send message'),
  )


def _block(db: t.Db, k: int) -> t.Task:
  post = paths.pick_post(
      db,
      k + 40,
      's.user_id != 1 AND s.user_id NOT IN (SELECT blocked_id FROM blocks)',
  )
  return change(
      f'Block the user who posted "{post["title"]}", with the note'
      f' "{_NOTES[k]}", without the quotes.',
      added(
          'forum.blocks',
          user_id=paths.EMMA,
          blocked_id=post['user_id'],
          note=_NOTES[k],
      ),
      *paths.find_post(post['title']),
      t.link(post['author'], after='Submitted by'),
      t.link('Block this user'),
      t.fill('Note', _NOTES[k]),
      t.button(f'Block {post["author"]}'),
  )


def _unblock(db: t.Db, k: int) -> t.Task:
  block = db.row_mixed(
      k, 'SELECT b.*, u.name FROM blocks b JOIN users u ON u.id = b.blocked_id'
  )
  return change(
      f'I have blocked one user with the note "{block["note"]}". Unblock this'
      ' user.',
      removed('forum.blocks', block['id']),
      *paths.menu('Block list'),
      t.button(f'Unblock {block["name"]}'),
  )


def _delete(db: t.Db, k: int) -> t.Task:
  post = paths.pick_post(db, k + 9, 's.user_id = 1')
  return change(
      f'Delete my submission "{post["title"]}".',
      changed('forum.submissions', post['id'], is_deleted=1),
      *paths.find_post(post['title']),
      t.link('Delete submission'),
      t.button('Yes, delete it'),
  )


def _bookmark(db: t.Db, k: int) -> t.Task:
  name, posts = paths.pick_forum(
      db,
      k,
      lambda row: paths.ranked(db, row['id'], 'score'),
      lambda rows: rows[0]['score'] > rows[1]['score']
      and rows[0]['bookmark'] is None,
      first=25,
  )
  post = posts[0]
  return change(
      f'Bookmark the submission of /f/{name} that has the most points of all'
      ' time.',
      added('forum.bookmarks', submission_id=post['id'], user_id=paths.EMMA),
      *paths.to_forum(db, name, at_home=True),
      t.link('Top'),
      t.link(post['title']),
      t.button('Bookmark'),
  )


def _preferences(_: t.Db, k: int) -> t.Task:
  chosen = _VALUES['preferences'][k]
  words = ' and '.join(f'"{label}" to "{name}"' for label, name, *_ in chosen)
  return change(
      f'In my preferences, set {words}.',
      changed(
          'forum.users',
          paths.EMMA,
          **{column: value for *_, column, value in chosen},
      ),
      *paths.menu('Preferences'),
      *(t.choose(label, name) for label, name, *_ in chosen),
      t.button('Save preferences'),
  )


def _sidebar(db: t.Db, k: int) -> t.Task:
  name, text = _VALUES['sidebars'][k]
  key = db.value('SELECT id FROM forums WHERE name = ?', name)
  return change(
      f'I moderate /f/{name}. Replace the text of its sidebar by: "{text}"',
      changed('forum.forums', key, sidebar=text),
      *paths.to_forum(db, name, at_home=True),
      t.link('Edit this forum'),
      t.fill('Sidebar', text),
      t.button('Save forum'),
  )


def _moderate(db: t.Db, k: int) -> t.Task:
  verb, button, column = _VALUES['moderate'][k % 2]
  post = paths.pick_post(
      db,
      k,
      's.forum_id IN (SELECT forum_id FROM moderators WHERE user_id = 1) AND'
      ' NOT s.is_locked AND NOT s.is_pinned',
  )
  return change(
      f'As a moderator of /f/{post["forum"]}, {verb.lower()} the submission'
      f' "{post["title"]}".',
      changed('forum.submissions', post['id'], **{column: 1}),
      *paths.find_post(post['title']),
      t.button(button),
  )


TEMPLATES = (
    t.Template('forum/subscribe', t.CHANGE, _subscribe, 28),
    t.Template('forum/upvote', t.CHANGE, _upvote, 40),
    t.Template('forum/discussed', t.CHANGE, _discussed, 5, (4,)),
    t.Template('forum/biography', t.CHANGE, _biography, 5, (6,)),
    t.Template('forum/create_forum', t.CHANGE, _create_forum, 5, (7,)),
    t.Template('forum/upvote_newest', t.CHANGE, _upvote_newest, 5, (22,)),
    t.Template('forum/reply', t.CHANGE, _reply, 40, (23,)),
    t.Template('forum/downvote_top', t.CHANGE, _downvote_top, 5, (24,)),
    t.Template('forum/like_all', t.CHANGE, _like_all, 5, (25,)),
    t.Template('forum/dislike_all', t.CHANGE, _dislike_all, 5, (1510,)),
    t.Template('forum/add_line', t.CHANGE, _add_line, 5, (27,)),
    t.Template('forum/message', t.CHANGE, _message, 5),
    t.Template('forum/block', t.CHANGE, _block, 5),
    t.Template('forum/unblock', t.CHANGE, _unblock, 5),
    t.Template('forum/delete', t.CHANGE, _delete, 5),
    t.Template('forum/bookmark', t.CHANGE, _bookmark, 5),
    t.Template('forum/preferences', t.CHANGE, _preferences, 5),
    t.Template('forum/sidebar', t.CHANGE, _sidebar, 5),
    t.Template('forum/moderate', t.CHANGE, _moderate, 5),
)
