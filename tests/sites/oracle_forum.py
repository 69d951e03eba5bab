"""A second grader of the forum's tasks: from the intent's words and the rows.

It knows neither goals nor answers of the package; of a task it reads the intent
alone, as a person would, and looks up in the seed what that asks for.
"""

import re
from collections import Counter
from urllib.parse import urlsplit

from agentrl.sites import table
from tests.sites.judging import (
    added,
    change,
    changed,
    differences,
    go,
    groups,
    seek,
)

ME = 1
POSTS = """SELECT s.id, s.forum_id, s.user_id, s.title, s.url, s.created_at,
  (SELECT name FROM users WHERE id = s.user_id) AS author,
  s.points + ifnull((SELECT choice FROM submission_votes v
    WHERE v.submission_id = s.id), 0) AS score,
  (SELECT count(*) FROM comments c WHERE c.submission_id = s.id) AS comments,
  (SELECT max(created_at) FROM comments c WHERE c.submission_id = s.id) AS last
  FROM submissions s"""
COMMENTS = """SELECT c.id, c.parent_id, c.user_id, c.body,
  (SELECT name FROM users WHERE id = c.user_id) AS author,
  c.points + ifnull((SELECT choice FROM comment_votes v
    WHERE v.comment_id = c.id), 0) AS score FROM comments c"""


# --- records


def value(db, sql, *values):
  return db.execute(sql, values).fetchone()[0]


def forum_id(db, name):
  return value(db, 'SELECT id FROM forums WHERE name = ?', name)


def user_id(db, name):
  return value(db, 'SELECT id FROM users WHERE name = ?', name)


def in_forum(db, name, key, since=''):
  rows = db.execute(
      f'{POSTS} WHERE forum_id = ? AND created_at >= ?',
      (forum_id(db, name), since),
  ).fetchall()
  return sorted(rows, key=lambda row: row[key], reverse=True)


def top(db, name):
  return in_forum(db, name, 'score')


def discussed(db, name):
  return in_forum(db, name, 'comments')


def newest(db, name):
  return in_forum(db, name, 'created_at')


def titled(db, title):
  rows = db.execute(f'{POSTS} WHERE title = ?', (title,)).fetchall()
  assert len(rows) == 1
  return rows[0]


def below(db, title):
  rows = db.execute(
      f'{COMMENTS} WHERE submission_id = ?', (titled(db, title)['id'],)
  ).fetchall()
  return sorted(rows, key=lambda row: -row['score'])


def active(db, name):
  rows = in_forum(db, name, 'created_at')
  return max(rows, key=lambda row: max(row['last'] or '', row['created_at']))


def disliked(db, name):
  author = newest(db, name)[0]['user_id']
  rows = db.execute(f'{COMMENTS} WHERE c.user_id = ?', (author,)).fetchall()
  return sum(row['score'] < 0 for row in rows)


def linking(db, name, site):
  return [
      row['title']
      for row in top(db, name)[:10]
      if urlsplit(row['url'] or '').netloc == site
  ]


def rank(db, word):
  words = 'most second third fourth fifth sixth seventh eighth ninth tenth'
  place = (
      int(re.sub(r'\D', '', word))
      if word[0].isdigit()
      else 1 + words.split().index(word.split()[0])
  )
  rows = db.execute(
      'SELECT (SELECT name FROM forums WHERE id = forum_id) FROM subscriptions'
      ' GROUP BY forum_id ORDER BY count(*) DESC'
  ).fetchall()
  return rows[place - 1][0]


def reply_to(db, title, author):
  comments = below(db, title)
  (mine,) = [row for row in comments if row['author'] == author]
  (reply,) = [row for row in comments if row['parent_id'] == mine['id']]
  return reply['author']


def busiest(db, title):
  return Counter(x['author'] for x in below(db, title)).most_common(1)[0][0]


def points_of(db, title, author):
  (mine,) = [x for x in below(db, title) if x['author'] == author]
  return mine['score']


def of_user(db, name):
  return db.execute(
      f'{POSTS} WHERE user_id = ?', (user_id(db, name),)
  ).fetchall()


def letter(db, subject, question):
  body = value(
      db,
      'SELECT group_concat(body) FROM messages WHERE thread_id = (SELECT id'
      ' FROM threads WHERE title = ?) AND user_id != 1',
      subject,
  )
  pattern = {
      'what is the number of the parcel?': r'its number is (\d+)',
      'which book was kept for me?': r'I kept "(.+?)" for you',
      'what is the door code?': r'The door code is (\d+)',
      'how much is the rack?': r'(\d+) dollars',
      'near which place was it found?': r'glove near (.+?), on the',
  }[question]
  found = re.search(pattern, body)[1]
  return int(found) if found.isdigit() else found


def names(db, sql, *values):
  return [row[0] for row in db.execute(sql, values)]


# --- rows that are wanted


def post(db, forum, title, url=None, body=None):
  return added(
      'submissions',
      forum_id=forum_id(db, forum),
      user_id=ME,
      title=title,
      url=url,
      body=body,
      points=1,
      is_pinned=0,
      is_locked=0,
      is_deleted=0,
  )


def vote(row, choice):
  return added(
      'submission_votes', submission_id=row['id'], user_id=ME, choice=choice
  )


def described(db, about):
  (found,) = [
      row['name']
      for row in db.execute('SELECT * FROM forums')
      if about in row['description'].lower() or about == row['title'].lower()
  ]
  return found


LIKELY = {
    'ferry pier': 'lakewood',
    'yarn': 'knitting',
    'sourdough': 'baking',
    'greyhound': 'dogs',
    'car loan': 'personalfinance',
}
FITTING = {
    'headphones': 'headphones',
    'running shoes': 'running',
    'coffee': 'coffee',
    'telescope': 'space',
    'board game': 'boardgames',
}


def by_word(table, text):
  (found,) = {forum for word, forum in table.items() if word in text}
  return found


def repost(db, _, title, origin, forum, body):
  row = titled(db, title)
  assert row['forum_id'] == forum_id(db, origin)
  return [post(db, forum, title, row['url'], body)]


def digest(db, _, forum, title, many, origin):
  body = '\n'.join(row['title'] for row in newest(db, origin)[: int(many)])
  return [post(db, forum, title, body=body)]


def ideas(db, _, many, origin, forum, title):
  body = '\n'.join(row['title'] for row in discussed(db, origin)[: int(many)])
  return [post(db, forum, title, body=body)]


def gather(db, _, origin, forum, title):
  bad = [x['body'] for x in below(db, origin) if x['score'] < 0]
  body = '\n'.join(re.split(r'\n', x)[0] for x in bad)
  return [post(db, forum, title, body=body)]


def promote(db, _, promoted, forum, title):
  about = value(db, 'SELECT description FROM forums WHERE name = ?', promoted)
  return [post(db, forum, title, body=about)]


def subscription(db, _, name):
  return [added('subscriptions', forum_id=forum_id(db, name), user_id=ME)]


def new_forum(db, final, name, title, about, entries):
  key = value(final, 'SELECT max(id) FROM forums')
  sidebar = '\n'.join(entries.split(', '))
  return [
      added(
          'forums', name=name, title=title, description=about, sidebar=sidebar
      ),
      added('moderators', forum_id=key, user_id=ME),
  ]


def judge_reply(seed, final, answer, k):
  """The page where it starts is part of what is asked for."""
  del answer
  author, text = groups(
      'forum/reply',
      seed,
      k,
      r'Reply to the comment that (\S+) has written on this page with: "(.+)"',
  )
  start = table.TEMPLATES['forum/reply'].make({'forum': seed}, k).start[0]
  key = int(start.split('/')[5])
  parent = value(
      seed,
      'SELECT id FROM comments WHERE submission_id = ? AND user_id = ?',
      key,
      user_id(seed, author),
  )
  wanted = added(
      'comments',
      submission_id=key,
      parent_id=parent,
      user_id=ME,
      body=text,
      points=1,
      is_deleted=0,
  )
  return differences(seed, final) == Counter([wanted])


def down(db, _, which, name):
  many = {
      'submission that has': 1,
      'two submissions that have': 2,
      'three submissions that have': 3,
  }[which]
  return [vote(row, -1) for row in top(db, name)[:many]]


def everything(choice):
  return lambda db, _, author, name: [
      vote(row, choice)
      for row in of_user(db, author)
      if row['forum_id'] == forum_id(db, name)
  ]


def add_line(db, _, title, line):
  key = titled(db, title)['id']
  body = value(db, 'SELECT body FROM submissions WHERE id = ?', key)
  return [changed('submissions', key, body=f'{body}\n{line}')]


def message(db, final, name, subject, text):
  key = value(final, 'SELECT max(id) FROM threads')
  other = user_id(db, name)
  return [
      added('threads', user_id=ME, other_id=other, title=subject),
      added('messages', thread_id=key, user_id=ME, body=text),
  ]


def block(db, _, title, note):
  other = titled(db, title)['user_id']
  return [added('blocks', user_id=ME, blocked_id=other, note=note)]


COLUMNS = {
    'Theme': 'theme',
    'Front page': 'front_page',
    'Default sort': 'front_sort',
    'Receive messages from': 'messages_from',
}


def preferences(db, _, label, name, label2, name2):
  values = {
      COLUMNS[x]: y.split()[0].lower()
      for x, y in ((label, name), (label2, name2))
  }
  return [changed('users', ME, **values)]


def moderate(db, _, forum, verb, title):
  row = titled(db, title)
  assert row['forum_id'] == forum_id(db, forum)
  column = {'lock': 'is_locked', 'pin': 'is_pinned'}[verb]
  return [changed('submissions', row['id'], **{column: 1})]


SEEK = {
    'top_author': (
        r'Who posted .* of all time in /f/(\w+)\? Answer .*',
        lambda db, name: top(db, name)[0]['author'],
    ),
    'top_links': (
        r'Look at the 10 submissions of /f/(\w+) that have the most points .*'
        r' link to (\S+)\? Give .*',
        linking,
    ),
    'disliked_comments': (
        r'Take .* newest submission in /f/(\w+)\. How many .*',
        disliked,
    ),
    'forum_created': (
        r'When was the forum /f/(\w+) created\? .*',
        lambda db, name: value(
            db, 'SELECT date(created_at) FROM forums WHERE name = ?', name
        ),
    ),
    'subscribers': (
        r'How many subscribers does /f/(\w+) have\? .*',
        lambda db, name: value(
            db,
            'SELECT count(*) FROM subscriptions WHERE forum_id = ?',
            forum_id(db, name),
        ),
    ),
    'subscriber_rank': (r'Which forum has the (.+) subscribers of .*', rank),
    'best_comment': (
        r'Who wrote .* most points under the submission "(.+)"\? .*',
        lambda db, title: below(db, title)[0]['author'],
    ),
    'answered_by': (
        r'Under the submission "(.+)" the user (\S+) wrote .*',
        reply_to,
    ),
    'link_address': (
        r'Which address does the submission "(.+)" link to\? .*',
        lambda db, title: titled(db, title)['url'],
    ),
    'most_commented': (
        r'What is the title .* in /f/(\w+) that has the most comments .*',
        lambda db, name: discussed(db, name)[0]['title'],
    ),
    'top_of_month': (
        r'Among those submissions in /f/(\w+) that .*',
        lambda db, name: in_forum(
            db, name, 'score', since='2023-05-16 12:00:00'
        )[0]['score'],
    ),
    'last_commented': (
        r'Which submission in /f/(\w+) got the most recent comment\? .*',
        lambda db, name: active(db, name)['title'],
    ),
    'moderators': (
        r'Who are the moderators of /f/(\w+)\? .*',
        lambda db, name: names(
            db,
            'SELECT name FROM users WHERE id IN (SELECT user_id FROM moderators'
            ' WHERE forum_id = ?)',
            forum_id(db, name),
        ),
    ),
    'sum_of_top': (
        r'How many points do the three .* of all time in /f/(\w+) have .*',
        lambda db, name: sum(row['score'] for row in top(db, name)[:3]),
    ),
    'lead': (
        r'In /f/(\w+), how many points .* more than the second one\? .*',
        lambda db, name: top(db, name)[0]['score'] - top(db, name)[1]['score'],
    ),
    'busiest': (
        r'Which user wrote .* under the submission "(.+)"\? .*',
        busiest,
    ),
    'worst_comment': (
        r'How many points does the worst .* submission "(.+)" have\? .*',
        lambda db, title: below(db, title)[-1]['score'],
    ),
    'comment_points': (
        r'How many points has the comment that (\S+) wrote under the submission'
        r' "(.+)"\? .*',
        lambda db, author, title: points_of(db, title, author),
    ),
    'registered': (
        r'On which day did the user (\S+) register\? .*',
        lambda db, name: value(
            db, 'SELECT date(created_at) FROM users WHERE name = ?', name
        ),
    ),
    'comments_written': (
        r'How many comments has the user (\S+) written so far\? .*',
        lambda db, name: value(
            db,
            'SELECT count(*) FROM comments WHERE user_id = ?',
            user_id(db, name),
        ),
    ),
    'oldest_submission': (
        r'On which day did (\S+) post the oldest .*',
        lambda db, name: min(x['created_at'] for x in of_user(db, name))[:10],
    ),
    'most_discussed': (
        r'Which of the submissions of (\S+) has the most comments\? .*',
        lambda db, name: max(of_user(db, name), key=lambda x: x['comments'])[
            'title'
        ],
    ),
    'moderates': (
        r'Which forums does the user (\S+) moderate\? .*',
        lambda db, name: names(
            db,
            'SELECT name FROM forums WHERE id IN (SELECT forum_id FROM'
            ' moderators WHERE user_id = ?)',
            user_id(db, name),
        ),
    ),
    'letter': (
        r'I got private messages under the subject "(.+)"\. According to them,'
        r' (.+)',
        letter,
    ),
    'blocked': (
        r'Which user did I block with the note "(.+)"\? .*',
        lambda db, note: value(
            db,
            'SELECT name FROM users WHERE id = (SELECT blocked_id FROM blocks'
            ' WHERE note = ?)',
            note,
        ),
    ),
    'my_titles': (
        r'What are the titles .* that I have posted in /f/(\w+)\? .*',
        lambda db, name: [
            row['title']
            for row in of_user(db, 'emma')
            if row['forum_id'] == forum_id(db, name)
        ],
    ),
}
CHANGE = {
    'ask': (
        r'Find the forum that is about (.+) and post my question there: "(.+)"'
        r' The question is .*',
        lambda db, _, about, title: [post(db, described(db, about), title)],
    ),
    'ask_likely': (
        r'Post this question in .*: "(.+)" Use it as the title, .*',
        lambda db, _, title: [post(db, by_word(LIKELY, title), title)],
    ),
    'review': (
        r'I have finished .* Post in /f/(\w+) with the title "(.+)" and this'
        r' text as the body: "(.+)"',
        lambda db, _, forum, title, body: [post(db, forum, title, body=body)],
    ),
    'advice': (
        r'Go to the forum where people get advice on couples, .*: title "(.+)",'
        r' body "(.+)"',
        lambda db, _, title, body: [
            post(db, 'relationship_advice', title, body=body)
        ],
    ),
    'opinion': (
        r'Start a discussion in /f/(\w+) with the title "(.+)"\. Ask for'
        r' opinions by the body "(.+)", without the quotes\.',
        lambda db, _, forum, title, body: [post(db, forum, title, body=body)],
    ),
    'budget': (
        r'I want to buy .* Ask /f/(\w+) for .* has the title "(.+)" and nothing'
        r' else\.',
        lambda db, _, forum, title: [post(db, forum, title)],
    ),
    'budget_anywhere': (
        r'Find the forum that fits (.+) best .*: title "(.+)", body "(.+)"',
        lambda db, _, product, title, body: [
            post(db, by_word(FITTING, product), title, body=body)
        ],
    ),
    'meetup': (
        r'Announce a virtual meetup on .* in /f/(\w+)\. The title has to be'
        r' "(.+)" and the body "(.+)"',
        lambda db, _, forum, title, body: [post(db, forum, title, body=body)],
    ),
    'help_of': (
        r'Post in /f/(\w+) and ask .* Write exactly "(.+)" as the title, .*',
        lambda db, _, forum, title: [post(db, forum, title)],
    ),
    'repost': (
        r'The submission "(.+)" in /f/(\w+) links to a picture\. Submit the'
        r' same'
        r' link to /f/(\w+) with the same title, and write "(.+)" into the'
        r' body\.',
        repost,
    ),
    'digest': (
        r'Submit a text to /f/(\w+) with the title "(.+)"\. Its body lists the'
        r' titles of the (\d) newest submissions in /f/(\w+), .*',
        digest,
    ),
    'ideas': (
        r'Collect the titles of the (\d) submissions of /f/(\w+) that .* submit'
        r' them to /f/(\w+) under the title "(.+)": .*',
        ideas,
    ),
    'gather': (
        r'Under the submission "(.+)" some comments have .* Post in /f/(\w+)'
        r' with the title "(.+)" and, .*',
        gather,
    ),
    'promote': (
        r'Promote the forum /f/(\w+) in /f/(\w+): the title is "(.+)", and .*',
        promote,
    ),
    'subscribe': (r'Subscribe to the forum (\w+)\.', subscription),
    'upvote': (
        r'Upvote the submission "(.+)"\.',
        lambda db, _, title: [vote(titled(db, title), 1)],
    ),
    'discussed': (r'Subscribe to /f/(\w+) and then open .*', subscription),
    'biography': (
        r'Change the biography of my profile to: "(.+)"',
        lambda db, _, text: [changed('users', ME, biography=text)],
    ),
    'create_forum': (
        r'Create a forum with the name (\w+), the title "(.+)" and the'
        r' description "(.+)" Its sidebar has .*: (.+)\.',
        new_forum,
    ),
    'upvote_newest': (
        r'Give an upvote to the newest submission in /f/(\w+)\.',
        lambda db, _, name: [vote(newest(db, name)[0], 1)],
    ),
    'downvote_top': (
        r'Downvote the (.+) the most points of all time in /f/(\w+)\.',
        down,
    ),
    'like_all': (
        r'Upvote everything that (\S+) has submitted to /f/(\w+), .*',
        everything(1),
    ),
    'dislike_all': (
        r'Downvote everything that (\S+) has submitted to /f/(\w+), .*',
        everything(-1),
    ),
    'add_line': (
        r'Edit my submission "(.+)": add a line .* that says "(.+)"',
        add_line,
    ),
    'message': (
        r'Send a private message to (\S+) with the subject "(.+)" and the text'
        r' "(.+)"',
        message,
    ),
    'block': (
        r'Block the user who posted "(.+)", with the note "(.+)", without .*',
        block,
    ),
    'unblock': (
        r'I have blocked one user with the note "(.+)"\. Unblock this user\.',
        lambda db, _, note: [(
            '-',
            'blocks',
            value(db, 'SELECT id FROM blocks WHERE note = ?', note),
        )],
    ),
    'delete': (
        r'Delete my submission "(.+)"\.',
        lambda db, _, title: [
            changed('submissions', titled(db, title)['id'], is_deleted=1)
        ],
    ),
    'bookmark': (
        r'Bookmark the submission of /f/(\w+) that has the most points .*',
        lambda db, _, name: [
            added('bookmarks', submission_id=top(db, name)[0]['id'], user_id=ME)
        ],
    ),
    'preferences': (
        r'In my preferences, set "(.+)" to "(.+)" and "(.+)" to "(.+)"\.',
        preferences,
    ),
    'sidebar': (
        r'I moderate /f/(\w+)\. Replace the text of its sidebar by: "(.+)"',
        lambda db, _, name, text: [
            changed('forums', forum_id(db, name), sidebar=text)
        ],
    ),
    'moderate': (
        r'As a moderator of /f/(\w+), (\w+) the submission "(.+)"\.',
        moderate,
    ),
}
GO = (
    'newest', 'open', 'top', 'comments_of', 'table', 'search', 'own_page',
    'second', 'moderator',
)  # fmt: skip
ORACLES = {
    **{f'forum/{x}': seek(f'forum/{x}', *rest) for x, rest in SEEK.items()},
    **{f'forum/{x}': change(f'forum/{x}', *rest) for x, rest in CHANGE.items()},
    **{f'forum/{x}': go(f'forum/{x}') for x in GO},
    'forum/reply': judge_reply,
}
