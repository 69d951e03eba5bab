"""Tasks that end with a new submission."""

from collections.abc import Sequence

from agentrl.sites import seed_data, task as t
from agentrl.sites.forum.tasks import paths
from agentrl.sites.forum.tasks.paths import change
from agentrl.sites.goals import Row, added

_VALUES = seed_data.read(__file__)

_PRODUCTS = _VALUES['products']


def _post(
    db: t.Db,
    intent: str,
    forum: str,
    title: str,
    steps: Sequence[t.Step],
    *,
    url: str | None = None,
    body: str | None = None,
) -> t.Task:
  """A task whose goal is one new submission.

  Args:
    db: the records.
    intent: its objective.
    forum: name of the forum that it is for.
    title: of the submission.
    steps: that lead to the form, with the forum chosen.
    url: of the submission.
    body: of the submission.
  """
  texts = (('Title', title), ('URL', url), ('Body', body))
  return change(
      intent,
      submission(db, forum, title, url, body),
      *steps,
      *(t.fill(field, text) for field, text in texts if text),
      t.button('Create submission'),
  )


def submission(
    db: t.Db, forum: str, title: str, url: str | None, body: str | None
) -> Row:
  """The row of a new submission."""
  return added(
      'forum.submissions',
      forum_id=db.value('SELECT id FROM forums WHERE name = ?', forum),
      user_id=paths.EMMA,
      title=title,
      url=url,
      body=body,
      points=1,
      is_pinned=0,
      is_locked=0,
      is_deleted=0,
  )


def _form_of(db: t.Db, forum: str) -> Sequence[t.Step]:
  """To the form by way of the forum's page."""
  return (
      *paths.to_forum(db, forum, at_home=True),
      t.link(f'Submit to {forum}'),
  )


def _found_form(db: t.Db, word: str, forum: str) -> Sequence[t.Step]:
  """To the form of a forum that has to be found."""
  return (*paths.find_forum(db, word, forum), t.link(f'Submit to {forum}'))


def _chosen(forum: str) -> Sequence[t.Step]:
  """To the form by the menu, where the forum is chosen."""
  return t.link('Submit'), t.choose('Forum', forum)


def _ask(db: t.Db, k: int) -> t.Task:
  about, word, forum, question = _VALUES['questions'][k]
  return _post(
      db,
      f'Find the forum that is about {about} and post my question there:'
      f' "{question}" The question is the title; leave everything else empty.',
      forum,
      question,
      _found_form(db, word, forum),
  )


def _ask_likely(db: t.Db, k: int) -> t.Task:
  question, word, forum = _VALUES['likely'][k]
  return _post(
      db,
      'Post this question in the one forum whose subject it belongs to:'
      f' "{question}" Use it as the title, without a URL and without a body.',
      forum,
      question,
      _found_form(db, word, forum),
  )


def _review(db: t.Db, k: int) -> t.Task:
  book, text = _VALUES['reviews'][k]
  return _post(
      db,
      f'I have finished the novel "{book}". Post in /f/books with the title'
      f' "Review: {book}" and this text as the body: "{text}"',
      'books',
      f'Review: {book}',
      _form_of(db, 'books'),
      body=text,
  )


def _advice(db: t.Db, k: int) -> t.Task:
  issue, text = _VALUES['issues'][k]
  return _post(
      db,
      'Go to the forum where people get advice on couples, families and'
      f' friends, and ask there about {issue}: title "Advice needed: {issue}",'
      f' body "{text}"',
      'relationship_advice',
      f'Advice needed: {issue}',
      _found_form(db, 'couples', 'relationship_advice'),
      body=text,
  )


def _opinion(db: t.Db, k: int) -> t.Task:
  subject, forum = _VALUES['opinions'][k]
  return _post(
      db,
      f'Start a discussion in /f/{forum} with the title "Let us talk about'
      f' {subject}". Ask for opinions by the body "Your opinion?", without the'
      ' quotes.',
      forum,
      f'Let us talk about {subject}',
      _chosen(forum),
      body='Your opinion?',
  )


def _budget(db: t.Db, k: int) -> t.Task:
  product, price, forum, _ = _PRODUCTS[k]
  title = f'Recommendations for {product} under ${price}?'
  return _post(
      db,
      f'I want to buy {product} for less than ${price}. Ask /f/{forum} for'
      f' recommendations, by a submission that has the title "{title}" and'
      ' nothing else.',
      forum,
      title,
      _form_of(db, forum),
  )


def _budget_anywhere(db: t.Db, k: int) -> t.Task:
  product, price, forum, word = _PRODUCTS[k]
  price -= 15
  title = f'Which {product} can you recommend?'
  return _post(
      db,
      f'Find the forum that fits {product} best and ask there for'
      f' recommendations: title "{title}", body "My budget is ${price}."',
      forum,
      title,
      _found_form(db, word, forum),
      body=f'My budget is ${price}.',
  )


def _meetup(db: t.Db, k: int) -> t.Task:
  interest, date, forum = _VALUES['meetups'][k]
  title = f'Virtual {interest} meetup on {date}'
  return _post(
      db,
      f'Announce a virtual meetup on {date} in /f/{forum}. The title has to be'
      f' "{title}" and the body "Everybody is welcome."',
      forum,
      title,
      _chosen(forum),
      body='Everybody is welcome.',
  )


def _help_of(db: t.Db, k: int) -> t.Task:
  forum, people = _VALUES['fields'][k]
  title = f'How could machine learning help {people}?'
  return _post(
      db,
      f'Post in /f/{forum} and ask how machine learning could help {people}.'
      f' Write exactly "{title}" as the title, and no more than that.',
      forum,
      title,
      _chosen(forum),
  )


def _repost(db: t.Db, k: int) -> t.Task:
  origin, forum = _VALUES['reposts'][k]
  post = paths.pick_post(
      db,
      k,
      's.forum_id = (SELECT id FROM forums WHERE name = ?) AND s.url IS NOT'
      ' NULL AND s.user_id != 1',
      origin,
  )
  return _post(
      db,
      f'The submission "{post["title"]}" in /f/{origin} links to a picture.'
      f' Submit the same link to /f/{forum} with the same title, and write'
      f' "from /f/{origin}" into the body.',
      forum,
      post['title'],
      (*paths.find_post(post['title']), *_chosen(forum)),
      url=post['url'],
      body=f'from /f/{origin}',
  )


def _digest(db: t.Db, k: int) -> t.Task:
  origin, forum, many = _VALUES['digests'][k]
  key = db.value('SELECT id FROM forums WHERE name = ?', origin)
  posts = paths.ranked(db, key, 'created_at')[:many]
  return _post(
      db,
      f'Submit a text to /f/{forum} with the title "News from /f/{origin}". Its'
      f' body lists the titles of the {many} newest submissions in /f/{origin},'
      ' the newest first, one title on each line and nothing else.',
      forum,
      f'News from /f/{origin}',
      (
          *paths.to_forum(db, origin, at_home=True),
          t.link('New'),
          *_chosen(forum),
      ),
      body='\n'.join(x['title'] for x in posts),
  )


def _ideas(db: t.Db, k: int) -> t.Task:
  many = 2 + k % 3

  origin, posts = paths.pick_forum(
      db,
      k,
      lambda row: paths.ranked(db, row['id'], 'comments')[: many + 1],
      lambda rows: len({x['comments'] for x in rows}) == many + 1
      and rows[0]['forum'] != 'lakewood',
  )
  return _post(
      db,
      f'Collect the titles of the {many} submissions of /f/{origin} that have'
      ' the most comments of all time, and submit them to /f/lakewood under the'
      f' title "Much discussed in /f/{origin}": one title on each line of the'
      ' body, the one with the most comments first, and nothing else.',
      'lakewood',
      f'Much discussed in /f/{origin}',
      (
          *paths.to_forum(db, origin, at_home=True),
          t.link('Most commented'),
          *_chosen('lakewood'),
      ),
      body='\n'.join(x['title'] for x in posts[:many]),
  )


def _gather(db: t.Db, k: int) -> t.Task:
  low = 'c.submission_id BETWEEN 1000 AND 1200'
  bad = 'c.points + coalesce(v.choice, 0)'
  post = db.row_mixed(
      k,
      'SELECT s.* FROM comments c JOIN submissions s ON s.id = c.submission_id'
      f' LEFT JOIN comment_votes v ON v.comment_id = c.id WHERE {low} GROUP BY'
      f' s.id HAVING count(*) > 5 AND sum({bad} < 0) BETWEEN 2 AND 3 AND'
      f' count(DISTINCT CASE WHEN {bad} < 0 THEN {bad} END) = sum({bad} < 0)',
  )
  comments = db.rows(
      'SELECT body FROM replies WHERE submission_id = ? AND score < 0 ORDER BY'
      ' score DESC',
      post['id'],
  )
  title = f'Unloved replies to: {post["title"]}'
  return _post(
      db,
      f'Under the submission "{post["title"]}" some comments have less than'
      f' zero points. Post in /f/Showerthoughts with the title "{title}" and,'
      ' as the body, the first paragraph of each of these comments, one on'
      ' each line, in the order in which they stand on the page.',
      'Showerthoughts',
      title,
      (*paths.find_post(post['title']), *_chosen('Showerthoughts')),
      body='\n'.join(paths.first_line(x['body']) for x in comments),
  )


def _promote(db: t.Db, k: int) -> t.Task:
  promoted, forum = _VALUES['promoted'][k]
  about = db.value('SELECT description FROM forums WHERE name = ?', promoted)
  return _post(
      db,
      f'Promote the forum /f/{promoted} in /f/{forum}: the title is "Have a'
      f' look at /f/{promoted}", and the body is the description of'
      f' /f/{promoted}, as it stands above its Subscribe or Unsubscribe'
      ' button.',
      forum,
      f'Have a look at /f/{promoted}',
      (*paths.to_forum(db, promoted, at_home=True), *_chosen(forum)),
      body=about,
  )


TEMPLATES = (
    t.Template('forum/ask', t.CHANGE, _ask, 5, (5,)),
    t.Template('forum/ask_likely', t.CHANGE, _ask_likely, 5, (3765,)),
    t.Template('forum/review', t.CHANGE, _review, 5, (9,)),
    t.Template('forum/advice', t.CHANGE, _advice, 5, (12,)),
    t.Template('forum/opinion', t.CHANGE, _opinion, 5, (13,)),
    t.Template('forum/budget', t.CHANGE, _budget, 5, (15,)),
    t.Template('forum/budget_anywhere', t.CHANGE, _budget_anywhere, 5, (6100,)),
    t.Template('forum/meetup', t.CHANGE, _meetup, 5, (16,)),
    t.Template('forum/help_of', t.CHANGE, _help_of, 5, (19,)),
    t.Template('forum/repost', t.CHANGE, _repost, 5, (11,)),
    t.Template('forum/digest', t.CHANGE, _digest, 5, (84,)),
    t.Template('forum/ideas', t.CHANGE, _ideas, 5, (88,)),
    t.Template('forum/gather', t.CHANGE, _gather, 5, (101,)),
    t.Template('forum/promote', t.CHANGE, _promote, 5, (116, 117)),
)
