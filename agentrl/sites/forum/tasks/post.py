"""Tasks that end with a new submission."""

from collections.abc import Sequence

from agentrl.sites.forum.tasks import picking
from agentrl.sites.forum.tasks.picking import HOME
from agentrl.sites.goals import ADDED, Goal, Row
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

# What a forum is about, a word of its description, its name, and a question.
_QUESTIONS = (
    ('freshwater and reef tanks', 'reef', 'aquariums', 'Do snails eat moss?'),
    ('game consoles', 'console', 'consoles', 'Which console has the best grip?'),
    ('saws, planes and sawdust', 'sawdust', 'woodworking',
     'Is cherry harder than oak?'),
    ('beans, grinders and the morning cup', 'grinders', 'coffee',
     'How fine should I grind for a moka pot?'),
    ('rockets, planets and telescopes', 'telescopes', 'space',
     'When is the next meteor shower?'),
)  # fmt: skip
_LIKELY = (
    ('Is a car necessary if I live two miles from the ferry pier in Lakewood?',
     'lakewood', 'lakewood'),
    ('Which yarn does not itch on bare arms?', 'yarn', 'knitting'),
    ('How often should sourdough be folded while it rests?', 'oven', 'baking'),
    ('What size of crate does a grown greyhound need?', 'puppies', 'dogs'),
    ('Is seven percent a fair rate for a car loan?', 'debts', 'personalfinance'),
)  # fmt: skip
_REVIEWS = (
    ('The Glass Orchard', 'I read it in one night.'),
    ('Nine Winters in Aldmere', 'Slow at first, wonderful at the end.'),
    ('The Borrowed Compass', 'Good for long train rides.'),
    ('Salt and Lanterns', 'The middle part drags, but I cried anyway.'),
    ('A Map for Sleepers', 'Not for me, sorry.'),
)
_ISSUES = (
    ('living far apart', 'We see each other once a month. How do you cope?'),
    ('a jealous friend', 'My oldest friend is jealous of my partner.'),
    ('money in a marriage', 'Should we keep separate accounts?'),
    ('a silent brother', 'My brother has not talked to me since March.'),
    ('noisy in-laws', 'They visit every weekend and never leave early.'),
)
_OPINIONS = (
    ('learning by video calls', 'languages'),
    ('phones at concerts', 'music'),
    ('helmets in the city', 'cycling'),
    ('self-driving telescopes', 'space'),
    ('painting with your fingers', 'painting'),
)
_PRODUCTS = (
    ('noise-cancelling headphones', 200, 'headphones', 'ears'),
    ('trail running shoes', 120, 'running', 'marathon'),
    ('a coffee hand grinder', 80, 'coffee', 'grinders'),
    ('a beginner telescope', 300, 'space', 'telescopes'),
    ('a board game for six', 45, 'boardgames', 'cardboard'),
)
_MEETUPS = (
    ('book reading', 'July 8th', 'books'),
    ('star gazing', 'August 12th', 'space'),
    ('bird song', 'June 30th', 'birdwatching'),
    ('board game', 'September 2nd', 'boardgames'),
    ('film poster', 'July 21st', 'movies'),
)
_FIELDS = (
    ('books', 'readers'),
    ('gardening', 'gardeners'),
    ('history', 'historians'),
    ('cooking', 'cooks'),
    ('guitars', 'guitar players'),
)
# Forum of a picture, and the forum that it is for.
_REPOSTS = (
    ('pics', 'photography'),
    ('landscapes', 'hiking'),
    ('pics', 'travel'),
    ('landscapes', 'painting'),
    ('pics', 'Showerthoughts'),
)
_DIGESTS = (
    ('space', 'books', 3),
    ('lakewood', 'jobs', 3),
    ('MachineLearning', 'programming', 4),
    ('movies', 'television', 3),
    ('cats', 'dogs', 4),
)
_PROMOTED = (
    ('birdwatching', 'photography'),
    ('knitting', 'painting'),
    ('baking', 'cooking'),
    ('math', 'programming'),
    ('history', 'travel'),
)


def _post(
    stores: Stores,
    intent: str,
    forum: str,
    title: str,
    steps: Sequence[Step],
    *,
    url: str | None = None,
    body: str | None = None,
) -> Task:
  """A task whose goal is one new submission.

  Args:
    stores: the records.
    intent: its objective.
    forum: name of the forum that it is for.
    title: of the submission.
    steps: that lead to the form, with the forum chosen.
    url: of the submission.
    body: of the submission.
  """
  texts = (('Title', title), ('URL', url), ('Body', body))
  return Task(
      intent=intent,
      goal=Goal(rows=(submission(stores, forum, title, url, body),)),
      steps=(
          *steps,
          *(fill(field, text) for field, text in texts if text),
          click_on('button', 'Create submission'),
          stop(),
      ),
      start=(HOME,),
  )


def submission(
    stores: Stores,
    forum: str,
    title: str,
    url: str | None,
    body: str | None,
) -> Row:
  """The row of a new submission."""
  return Row(
      'forum.submissions',
      ADDED,
      {
          'forum_id': picking.one(
              stores, 'SELECT id FROM forums WHERE name = ?', forum
          ),
          'user_id': picking.EMMA,
          'title': title,
          'url': url,
          'body': body,
          'points': 1,
          'is_pinned': 0,
          'is_locked': 0,
          'is_deleted': 0,
      },
  )


def _form_of(stores: Stores, forum: str) -> Sequence[Step]:
  """To the form by way of the forum's page."""
  return (
      *picking.to_forum(stores, forum, at_home=True),
      click_on('link', f'Submit to {forum}'),
  )


def _found_form(stores: Stores, word: str, forum: str) -> Sequence[Step]:
  """To the form of a forum that has to be found."""
  return (
      *picking.find_forum(stores, word, forum),
      click_on('link', f'Submit to {forum}'),
  )


def _chosen(forum: str) -> Sequence[Step]:
  """To the form by the menu, where the forum is chosen."""
  return click_on('link', 'Submit'), choose('Forum', forum)


def _ask(stores: Stores, k: int) -> Task:
  about, word, forum, question = _QUESTIONS[k]
  return _post(
      stores,
      f'Find the forum that is about {about} and post my question there:'
      f' "{question}" The question is the title; leave everything else empty.',
      forum,
      question,
      _found_form(stores, word, forum),
  )


def _ask_likely(stores: Stores, k: int) -> Task:
  question, word, forum = _LIKELY[k]
  return _post(
      stores,
      'Post this question in the one forum whose subject it belongs to:'
      f' "{question}" Use it as the title, without a URL and without a body.',
      forum,
      question,
      _found_form(stores, word, forum),
  )


def _review(stores: Stores, k: int) -> Task:
  book, text = _REVIEWS[k]
  return _post(
      stores,
      f'I have finished the novel "{book}". Post in /f/books with the title'
      f' "Review: {book}" and this text as the body: "{text}"',
      'books',
      f'Review: {book}',
      _form_of(stores, 'books'),
      body=text,
  )


def _advice(stores: Stores, k: int) -> Task:
  issue, text = _ISSUES[k]
  return _post(
      stores,
      'Go to the forum where people get advice on couples, families and'
      f' friends, and ask there about {issue}: title "Advice needed: {issue}",'
      f' body "{text}"',
      'relationship_advice',
      f'Advice needed: {issue}',
      _found_form(stores, 'couples', 'relationship_advice'),
      body=text,
  )


def _opinion(stores: Stores, k: int) -> Task:
  subject, forum = _OPINIONS[k]
  return _post(
      stores,
      f'Start a discussion in /f/{forum} with the title "Let us talk about'
      f' {subject}". Ask for opinions by the body "Your opinion?", without the'
      ' quotes.',
      forum,
      f'Let us talk about {subject}',
      _chosen(forum),
      body='Your opinion?',
  )


def _budget(stores: Stores, k: int) -> Task:
  product, price, forum, _ = _PRODUCTS[k]
  title = f'Recommendations for {product} under ${price}?'
  return _post(
      stores,
      f'I want to buy {product} for less than ${price}. Ask /f/{forum} for'
      f' recommendations, by a submission that has the title "{title}" and'
      ' nothing else.',
      forum,
      title,
      _form_of(stores, forum),
  )


def _budget_anywhere(stores: Stores, k: int) -> Task:
  product, price, forum, word = _PRODUCTS[k]
  price -= 15
  title = f'Which {product} can you recommend?'
  return _post(
      stores,
      f'Find the forum that fits {product} best and ask there for'
      f' recommendations: title "{title}", body "My budget is ${price}."',
      forum,
      title,
      _found_form(stores, word, forum),
      body=f'My budget is ${price}.',
  )


def _meetup(stores: Stores, k: int) -> Task:
  interest, date, forum = _MEETUPS[k]
  title = f'Virtual {interest} meetup on {date}'
  return _post(
      stores,
      f'Announce a virtual meetup on {date} in /f/{forum}. The title has to be'
      f' "{title}" and the body "Everybody is welcome."',
      forum,
      title,
      _chosen(forum),
      body='Everybody is welcome.',
  )


def _help_of(stores: Stores, k: int) -> Task:
  forum, people = _FIELDS[k]
  title = f'How could machine learning help {people}?'
  return _post(
      stores,
      f'Post in /f/{forum} and ask how machine learning could help {people}.'
      f' Write exactly "{title}" as the title, and no more than that.',
      forum,
      title,
      _chosen(forum),
  )


def _repost(stores: Stores, k: int) -> Task:
  origin, forum = _REPOSTS[k]
  post = picking.pick_post(
      stores,
      k,
      's.forum_id = (SELECT id FROM forums WHERE name = ?) AND s.url IS NOT'
      ' NULL AND s.user_id != 1',
      origin,
  )
  return _post(
      stores,
      f'The submission "{post["title"]}" in /f/{origin} links to a picture.'
      f' Submit the same link to /f/{forum} with the same title, and write'
      f' "from /f/{origin}" into the body.',
      forum,
      post['title'],
      (*picking.find_post(post['title']), *_chosen(forum)),
      url=post['url'],
      body=f'from /f/{origin}',
  )


def _digest(stores: Stores, k: int) -> Task:
  origin, forum, many = _DIGESTS[k]
  key = picking.one(stores, 'SELECT id FROM forums WHERE name = ?', origin)
  found = picking.ranked(stores, key, 'created_at')[:many]
  return _post(
      stores,
      f'Submit a text to /f/{forum} with the title "News from /f/{origin}". Its'
      f' body lists the titles of the {many} newest submissions in /f/{origin},'
      ' the newest first, one title on each line and nothing else.',
      forum,
      f'News from /f/{origin}',
      (
          *picking.to_forum(stores, origin, at_home=True),
          click_on('link', 'New'),
          *_chosen(forum),
      ),
      body='\n'.join(x['title'] for x in found),
  )


def _ideas(stores: Stores, k: int) -> Task:
  many = 2 + k % 3

  forum, found = picking.pick_forum(
      stores,
      k,
      lambda row: picking.ranked(stores, row['id'], 'comments')[: many + 1],
      lambda found: len({x['comments'] for x in found}) == many + 1
      and found[0]['forum'] != 'lakewood',
  )
  origin = forum['name']
  return _post(
      stores,
      f'Collect the titles of the {many} submissions of /f/{origin} that have'
      ' the most comments of all time, and submit them to /f/lakewood under the'
      f' title "Much discussed in /f/{origin}": one title on each line of the'
      ' body, the one with the most comments first, and nothing else.',
      'lakewood',
      f'Much discussed in /f/{origin}',
      (
          *picking.to_forum(stores, origin, at_home=True),
          click_on('link', 'Most commented'),
          *_chosen('lakewood'),
      ),
      body='\n'.join(x['title'] for x in found[:many]),
  )


def _gather(stores: Stores, k: int) -> Task:
  low = 'c.submission_id BETWEEN 1000 AND 1200'
  bad = 'c.points + coalesce(v.choice, 0)'
  post = picking.pick(
      stores,
      k,
      'SELECT s.* FROM comments c JOIN submissions s ON s.id = c.submission_id'
      f' LEFT JOIN comment_votes v ON v.comment_id = c.id WHERE {low} GROUP BY'
      f' s.id HAVING count(*) > 5 AND sum({bad} < 0) BETWEEN 2 AND 3 AND'
      f' count(DISTINCT CASE WHEN {bad} < 0 THEN {bad} END) = sum({bad} < 0)',
  )
  found = picking.rows(
      stores,
      'SELECT body FROM replies WHERE submission_id = ? AND score < 0 ORDER BY'
      ' score DESC',
      post['id'],
  )
  title = f'Unloved replies to: {post["title"]}'
  return _post(
      stores,
      f'Under the submission "{post["title"]}" some comments have less than'
      f' zero points. Post in /f/Showerthoughts with the title "{title}" and,'
      ' as the body, the first paragraph of each of these comments, one on'
      ' each line, in the order in which they stand on the page.',
      'Showerthoughts',
      title,
      (
          *picking.find_post(post['title']),
          *_chosen('Showerthoughts'),
      ),
      body='\n'.join(picking.first_line(x['body']) for x in found),
  )


def _promote(stores: Stores, k: int) -> Task:
  promoted, forum = _PROMOTED[k]
  about = picking.one(
      stores, 'SELECT description FROM forums WHERE name = ?', promoted
  )
  return _post(
      stores,
      f'Promote the forum /f/{promoted} in /f/{forum}: the title is "Have a'
      f' look at /f/{promoted}", and the body is the description of'
      f' /f/{promoted}, as it stands above its Subscribe or Unsubscribe'
      ' button.',
      forum,
      f'Have a look at /f/{promoted}',
      (
          *picking.to_forum(stores, promoted, at_home=True),
          *_chosen(forum),
      ),
      body=about,
  )


TEMPLATES = (
    Template('forum/ask', CHANGE, _ask, 5, (5,)),
    Template('forum/ask_likely', CHANGE, _ask_likely, 5, (3765,)),
    Template('forum/review', CHANGE, _review, 5, (9,)),
    Template('forum/advice', CHANGE, _advice, 5, (12,)),
    Template('forum/opinion', CHANGE, _opinion, 5, (13,)),
    Template('forum/budget', CHANGE, _budget, 5, (15,)),
    Template('forum/budget_anywhere', CHANGE, _budget_anywhere, 5, (6100,)),
    Template('forum/meetup', CHANGE, _meetup, 5, (16,)),
    Template('forum/help_of', CHANGE, _help_of, 5, (19,)),
    Template('forum/repost', CHANGE, _repost, 5, (11,)),
    Template('forum/digest', CHANGE, _digest, 5, (84,)),
    Template('forum/ideas', CHANGE, _ideas, 5, (88,)),
    Template('forum/gather', CHANGE, _gather, 5, (101,)),
    Template('forum/promote', CHANGE, _promote, 5, (116, 117)),
)
