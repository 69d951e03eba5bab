"""Questions about users, and about the visitor's own pages."""

import re

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.answers import Answer, Date, Money, Number, Several, Text
from agentrl.sites.forum.tasks import paths
from agentrl.sites.forum.tasks.paths import seek

_VALUES = seed_data.read(__file__)


def _registered(db: t.Db, k: int) -> t.Task:
  user = db.row_mixed(k, 'SELECT * FROM users WHERE id != 1')
  return seek(
      f'On which day did the user {user["name"]} register? Answer with the'
      ' date.',
      Date(user['created_at'][:10]),
      *paths.find_user(db, user['name']),
  )


def _written(db: t.Db, k: int) -> t.Task:
  user = db.row_mixed(
      k + 30,
      'SELECT *, (SELECT count(*) FROM comments c WHERE c.user_id = u.id) AS'
      ' many FROM users u WHERE id != 1 AND many > 11',
  )
  return seek(
      f'How many comments has the user {user["name"]} written so far? Answer'
      ' with a number.',
      Number(str(user['many']), 'comments'),
      *paths.find_user(db, user['name']),
  )


def _oldest(db: t.Db, k: int) -> t.Task:
  user = db.row_mixed(
      k + 60,
      'SELECT *, (SELECT count(*) FROM submissions s WHERE s.user_id = u.id) AS'
      ' many FROM users u WHERE id != 1 AND many BETWEEN 4 AND 20',
  )
  first = db.value(
      'SELECT min(created_at) FROM submissions WHERE user_id = ?', user['id']
  )
  return seek(
      f'On which day did {user["name"]} post the oldest of all submissions that'
      ' this user has made? Answer with the date.',
      Date(first[:10]),
      *paths.find_user(db, user['name']),
      t.link('Submissions'),
  )


def _most_discussed(db: t.Db, k: int) -> t.Task:
  users = db.rows(
      'SELECT u.id, u.name FROM users u JOIN submissions s ON s.user_id = u.id'
      ' WHERE u.id BETWEEN 100 AND 130 GROUP BY u.id HAVING count(*) BETWEEN 4'
      ' AND 20'
  )
  choices = []
  for user in pick.mixed(users):
    posts = db.rows(
        'SELECT title, comments FROM posts WHERE user_id = ? ORDER BY comments'
        ' DESC',
        user['id'],
    )
    if posts[0]['comments'] > posts[1]['comments']:
      choices.append((user['name'], posts[0]['title']))
  name, title = choices[k]
  return seek(
      f'Which of the submissions of {name} has the most comments? Answer with'
      ' its title.',
      Text(title),
      *paths.find_user(db, name),
      t.link('Submissions'),
      start=paths.FORUMS,
  )


def _moderates(db: t.Db, k: int) -> t.Task:
  user = db.row_mixed(
      k,
      'SELECT * FROM users u WHERE id != 1 AND (SELECT count(*) FROM moderators'
      ' m WHERE m.user_id = u.id) > 1',
  )
  names = db.rows(
      'SELECT f.name FROM moderators m JOIN forums f ON f.id = m.forum_id'
      ' WHERE m.user_id = ? ORDER BY lower(f.name)',
      user['id'],
  )
  return seek(
      f'Which forums does the user {user["name"]} moderate? Give the names of'
      ' all of them, separated by semicolons.',
      Several([Text(x['name'], (f'/f/{x["name"]}',)) for x in names]),
      *paths.find_user(db, user['name']),
      start=paths.MESSAGES,
  )


def _letter(db: t.Db, k: int) -> t.Task:
  title, question, pattern = _VALUES['letters'][k]
  body = db.value(
      'SELECT m.body FROM messages m JOIN threads t ON t.id = m.thread_id WHERE'
      ' t.title = ? ORDER BY m.id DESC LIMIT 1',
      title,
  )
  match = re.search(pattern, body)
  assert match is not None  # the letters are written for these patterns
  text = match[1]
  answer: Answer = Text(text)
  if 'much' in question:
    answer = Money(100 * int(text))
  elif text.isdecimal():
    answer = Number(text)
  return seek(
      f'I got private messages under the subject "{title}". According to them,'
      f' {question}',
      answer,
      *paths.menu('Messages'),
      t.link(title),
  )


def _blocked(db: t.Db, k: int) -> t.Task:
  block = db.row_mixed(
      k,
      'SELECT b.id, b.note, u.name FROM blocks b JOIN users u ON u.id ='
      ' b.blocked_id WHERE b.user_id = 1',
  )
  return seek(
      f'Which user did I block with the note "{block["note"]}"? Answer with the'
      ' user name.',
      Text(block['name']),
      *paths.menu('Block list'),
      start=paths.FORUMS,
  )


def _my_titles(db: t.Db, k: int) -> t.Task:
  name, titles = paths.pick_forum(
      db,
      k,
      lambda row: db.rows(
          'SELECT title FROM submissions WHERE user_id = 1 AND forum_id = ?'
          ' ORDER BY created_at DESC',
          row['id'],
      ),
      lambda titles: len(titles) in (2, 3),
  )
  many = db.value('SELECT count(*) FROM submissions WHERE user_id = 1')
  return seek(
      'What are the titles of all submissions that I have posted in'
      f' /f/{name}? Separate them by semicolons.',
      Several([Text(x['title']) for x in titles]),
      *paths.menu('Profile'),
      t.link('Submissions'),
      *(t.link('Next'),) * ((many - 1) // 20),
      start=paths.FORUMS,
  )


TEMPLATES = (
    t.Template('forum/registered', t.SEEK, _registered, 5),
    t.Template('forum/comments_written', t.SEEK, _written, 5),
    t.Template('forum/oldest_submission', t.SEEK, _oldest, 5),
    t.Template('forum/most_discussed', t.SEEK, _most_discussed, 5),
    t.Template('forum/moderates', t.SEEK, _moderates, 5),
    t.Template('forum/letter', t.SEEK, _letter, 5),
    t.Template('forum/blocked', t.SEEK, _blocked, 5),
    t.Template('forum/my_titles', t.SEEK, _my_titles, 5),
)
