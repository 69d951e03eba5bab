"""Experts of mail, posts, dates and flights, on situations written by hand."""

import json

import pytest

from agentrl.envs.miniwob import experts
from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import Situation
from agentrl.errors import EnvError


def _act(page, objective, *shown, past=()):
  """The command for nodes `(role, name[, value])`; their numbers are 2, ..."""
  nodes = [Node(number=1, backend=1, depth=0, role='RootWebArea')]
  for role, name, *value in shown:
    number = len(nodes) + 1
    nodes.append(Node(number, number, 1, role, name, *value))
  return experts.action(page, Situation(objective, tuple(nodes), past))


def _text(*names):
  return [('StaticText', name) for name in names]


def _inbox(*senders):
  icons = [('clickable', 'trash'), ('clickable', 'star')]
  threads = (
      [*_text(name, 'In id.', 'Lacus. At..'), *icons] for name in senders
  )
  return [('heading', 'Primary'), *sum(threads, [])]


_OPEN = [
    ('clickable', 'close-email'),
    ('clickable', 'trash'),
    *_text('In id.', 'Ada', 'to me', 'Lacus. At sit.', 'Reply', 'Forward'),
]
_FORWARD = 'Find the email by Ada and forward that email to Hedy.'
_REPLY = 'Find the email by Ada and reply to them with the text "In. Ut.".'


def test_icons_of_the_right_thread_are_clicked():
  inbox = _inbox('Cora', 'Ada')
  delete = 'Find the email by Ada and click the trash icon to delete it.'
  star = "put a star on Cora's email"
  assert _act('email-inbox', delete, *inbox) == 'click [11]'
  assert _act('email-inbox-nl-turk', star, *inbox) == 'click [7]'


def test_a_mail_is_forwarded():
  act = lambda *shown: _act('email-inbox-forward', _FORWARD, *shown)
  form = lambda to: act(
      ('clickable', 'send-forward'),
      ('textbox', 'forward-sender', to),
      ('textbox', '', 'Lacus. At sit.'),
  )
  assert act(*_inbox('Hedy', 'Ada')) == 'click [8]'
  assert act(*_OPEN) == 'click [9]'
  assert form('') == 'type [3] [Hedy] [0]'
  assert form('Hedy') == 'click [2]'


def test_a_mail_is_answered():
  act = lambda *shown: _act('email-inbox-reply', _REPLY, *shown)
  form = lambda text: act(('clickable', 'send-reply'), ('textbox', '', text))
  assert act(*_inbox('Adah', 'Ada')) == 'click [8]'
  assert act(*_OPEN) == 'click [8]'
  assert form('') == 'type [3] [In. Ut.] [0]'
  assert form('In. Ut.') == 'click [2]'


@pytest.mark.parametrize(
    'sentence',
    [
        "Send DEST NAME's email.",
        'DEST wants the email NAME sent to you.',
        "I'd like to send the email from NAME to DEST's email.",
        'please forward NAMEs last email to DEST',
        'Email DEST the forward from NAME in Primary inbox.',
        "Please locate NAME's email and put a copy in DEST's inbox.",
    ],
)
def test_sentences_name_sender_and_recipient(sentence):
  sentence = sentence.replace('NAME', 'Ada').replace('DEST', 'Jo-Ann')
  page = 'email-inbox-forward-nl-turk'
  assert _act(page, sentence, *_inbox('Jo-Ann', 'Ada')) == 'click [8]'
  form = [('clickable', 'send-forward'), ('textbox', 'forward-sender')]
  assert _act(page, sentence, *form) == 'type [3] [Jo-Ann] [0]'


def test_an_inbox_without_the_sender_has_no_way_on():
  with pytest.raises(EnvError, match='no way on: the inbox has nobody'):
    _act('email-inbox-reply', _REPLY, *_inbox('Cora'))


def _post(user, *icons):
  return [*_text('Eve', user, 'In id.'), *(('clickable', x) for x in icons)]


def test_an_icon_is_hovered_over_before_it_is_clicked():
  posts = _post('@ut', 'like', 'more') + _post('@id', 'like', 'more')
  like = 'For the user @id, click on the "Like" button.'
  block = 'For the user @ut, click on the "Block" button.'
  act = lambda *more, past=(): _act('social-media', *more, past=past)
  assert act(like, *posts) == 'hover [10]'
  assert act(like, *posts, past=('hover [10]',)) == 'click [10]'
  assert act(block, *posts) == 'hover [6]'
  assert act(block, *posts, *_text('Report', 'Block @ut')) == 'click [13]'


def test_icons_are_clicked_until_enough_are_active():
  some = 'Click the "Like" button on 2 posts by @ut and then click Submit.'
  every = 'Click the "Like" button on all posts by @ut and then click Submit.'
  posts = _post('@ut', 'like active') + _post('@id', 'like')
  posts += _post('@ut', 'like active') + _post('@ut', 'like')
  posts.append(('button', 'Submit'))
  assert _act('social-media-some', some, *posts) == 'click [18]'
  assert _act('social-media-all', every, *posts) == 'click [17]'


def test_a_calendar_is_turned_to_the_month():
  date = 'Select 11/03/2016 as the date and hit submit.'
  act = lambda value, *shown: _act(
      'choose-date',
      date,
      ('textbox', 'datepicker', value),
      ('button', 'Submit'),
      *shown,
  )
  shows = lambda month: act(
      '',
      ('link', 'Prev'),
      ('link', 'Next'),
      *_text(month, '2016'),
      ('link', '3'),
  )
  assert act('') == 'click [2]'
  assert shows('October') == 'click [5]'
  assert shows('December') == 'click [4]'
  assert shows('November') == 'click [8]'
  assert act('11/03/2016') == 'click [3]'


def test_the_best_flight_is_booked():
  wish = 'Book the {} one-way flight from: Anvik, AK to: MOT on 12/23/2016.'
  flights = [
      *_text('9h 30m'),
      ('button', 'Book flight for $1100'),
      *_text('10h 2m'),
      ('button', 'Book flight for $980'),
  ]
  act = lambda kind: _act('book-flight', wish.format(kind), *flights)
  assert act('cheapest') == 'click [5]'
  assert act('shortest') == 'click [3]'


def test_the_airline_s_form_is_filled():
  wish = json.dumps({
      'Departure City': 'Portland',
      'Destination City': 'Austin',
      'Departure Day': 5,
      'Passengers': 2,
      'Seat type': 'First',
  })
  act = lambda *shown: _act('flight.Alaska-auto', wish, *shown)
  list_ = _text('Portland, ME (PWM)', 'Portland, OR (PDX)')
  assert act(('textbox', 'From', 'Portland'), *list_) == 'click [4]'
  filled = [
      ('textbox', 'From', 'Portland, OR (PDX)'),
      ('textbox', 'To', 'Austin, TX (AUS)'),
      ('textbox', 'Depart', '3/5/2017'),
      *_text('One-way', '-'),
  ]
  assert act(*filled, *_text('1', '+')) == 'click [8]'
  more = ('heading', 'More search options')
  assert act(*filled, *_text('2', '+'), more) == 'click [9]'
  assert act(*filled, ('textbox', 'Return')) == 'click [5]'
