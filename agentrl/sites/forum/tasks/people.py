"""Questions about users, and about the visitor's own pages."""

import re

from agentrl.sites.answers import Answer, Date, Money, Number, Several, Text
from agentrl.sites.forum.tasks import picking
from agentrl.sites.forum.tasks.picking import FORUMS, HOME, MESSAGES
from agentrl.sites.forum.tasks.seek import ask
from agentrl.sites.task import SEEK, Stores, Task, Template, click_on

# Subject of a thread of messages, the question, and where its answer stands.
_LETTERS = (
    ('Seed parcel', 'what is the number of the parcel?', r'number is (\d+)'),
    ('Book swap', 'which book was kept for me?', r'kept "([^"]+)"'),
    ('Coffee tasting', 'what is the door code?', r'code is (\d+)'),
    ('Your bike rack', 'how much is the rack?', r'for (\d+) dollars'),
    ('Lost glove', 'near which place was it found?', r'near ([^,]+),'),
)


def _registered(stores: Stores, k: int) -> Task:
  user = picking.pick(stores, k, 'SELECT * FROM users WHERE id != 1')
  return ask(
      f'On which day did the user {user["name"]} register? Answer with the'
      ' date.',
      Date(user['created_at'][:10]),
      picking.find_user(stores, user['name']),
      HOME,
  )


def _written(stores: Stores, k: int) -> Task:
  user = picking.pick(
      stores,
      k + 30,
      'SELECT *, (SELECT count(*) FROM comments c WHERE c.user_id = u.id) AS'
      ' many FROM users u WHERE id != 1 AND many > 11',
  )
  return ask(
      f'How many comments has the user {user["name"]} written so far? Answer'
      ' with a number.',
      Number(str(user['many']), 'comments'),
      picking.find_user(stores, user['name']),
      HOME,
  )


def _oldest(stores: Stores, k: int) -> Task:
  user = picking.pick(
      stores,
      k + 60,
      'SELECT *, (SELECT count(*) FROM submissions s WHERE s.user_id = u.id) AS'
      ' many FROM users u WHERE id != 1 AND many BETWEEN 4 AND 20',
  )
  first = picking.one(
      stores,
      'SELECT min(created_at) FROM submissions WHERE user_id = ?',
      user['id'],
  )
  return ask(
      f'On which day did {user["name"]} post the oldest of all submissions that'
      ' this user has made? Answer with the date.',
      Date(first[:10]),
      (
          *picking.find_user(stores, user['name']),
          click_on('link', 'Submissions'),
      ),
      HOME,
  )


def _most_discussed(stores: Stores, k: int) -> Task:
  users = picking.rows(
      stores,
      'SELECT u.id, u.name FROM users u JOIN submissions s ON s.user_id = u.id'
      ' WHERE u.id BETWEEN 100 AND 130 GROUP BY u.id HAVING count(*) BETWEEN 4'
      ' AND 20',
  )
  choices = []
  for user in picking.mixed(users):
    found = picking.rows(
        stores,
        'SELECT title, comments FROM posts WHERE user_id = ? ORDER BY comments'
        ' DESC',
        user['id'],
    )
    if found[0]['comments'] > found[1]['comments']:
      choices.append((user['name'], found[0]['title']))
  name, title = choices[k]
  return ask(
      f'Which of the submissions of {name} has the most comments? Answer with'
      ' its title.',
      Text(title),
      (*picking.find_user(stores, name), click_on('link', 'Submissions')),
      FORUMS,
  )


def _moderates(stores: Stores, k: int) -> Task:
  user = picking.pick(
      stores,
      k,
      'SELECT * FROM users u WHERE id != 1 AND (SELECT count(*) FROM moderators'
      ' m WHERE m.user_id = u.id) > 1',
  )
  names = picking.rows(
      stores,
      'SELECT f.name FROM moderators m JOIN forums f ON f.id = m.forum_id'
      ' WHERE m.user_id = ? ORDER BY lower(f.name)',
      user['id'],
  )
  return ask(
      f'Which forums does the user {user["name"]} moderate? Give the names of'
      ' all of them, separated by semicolons.',
      Several([Text(x['name'], (f'/f/{x["name"]}',)) for x in names]),
      picking.find_user(stores, user['name']),
      MESSAGES,
  )


def _letter(stores: Stores, k: int) -> Task:
  title, question, pattern = _LETTERS[k]
  body = picking.one(
      stores,
      'SELECT m.body FROM messages m JOIN threads t ON t.id = m.thread_id WHERE'
      ' t.title = ? ORDER BY m.id DESC LIMIT 1',
      title,
  )
  match = re.search(pattern, body)
  assert match is not None  # the letters are written for these patterns
  found = match[1]
  answer: Answer = Text(found)
  if 'much' in question:
    answer = Money(100 * int(found))
  elif found.isdecimal():
    answer = Number(found)
  return ask(
      f'I got private messages under the subject "{title}". According to them,'
      f' {question}',
      answer,
      (*picking.menu('Messages'), click_on('link', title)),
      HOME,
  )


def _blocked(stores: Stores, k: int) -> Task:
  found = picking.pick(
      stores,
      k,
      'SELECT b.id, b.note, u.name FROM blocks b JOIN users u ON u.id ='
      ' b.blocked_id WHERE b.user_id = 1',
  )
  return ask(
      f'Which user did I block with the note "{found["note"]}"? Answer with the'
      ' user name.',
      Text(found['name']),
      picking.menu('Block list'),
      FORUMS,
  )


def _my_titles(stores: Stores, k: int) -> Task:
  forum, titles = picking.pick_forum(
      stores,
      k,
      lambda row: picking.rows(
          stores,
          'SELECT title FROM submissions WHERE user_id = 1 AND forum_id = ?'
          ' ORDER BY created_at DESC',
          row['id'],
      ),
      lambda titles: len(titles) in (2, 3),
  )
  many = picking.one(
      stores, 'SELECT count(*) FROM submissions WHERE user_id = 1'
  )
  return ask(
      'What are the titles of all submissions that I have posted in'
      f' /f/{forum["name"]}? Separate them by semicolons.',
      Several([Text(x['title']) for x in titles]),
      (
          *picking.menu('Profile'),
          click_on('link', 'Submissions'),
          *(click_on('link', 'Next'),) * ((many - 1) // 20),
      ),
      FORUMS,
  )


TEMPLATES = (
    Template('forum/registered', SEEK, _registered, 5),
    Template('forum/comments_written', SEEK, _written, 5),
    Template('forum/oldest_submission', SEEK, _oldest, 5),
    Template('forum/most_discussed', SEEK, _most_discussed, 5),
    Template('forum/moderates', SEEK, _moderates, 5),
    Template('forum/letter', SEEK, _letter, 5),
    Template('forum/blocked', SEEK, _blocked, 5),
    Template('forum/my_titles', SEEK, _my_titles, 5),
)
