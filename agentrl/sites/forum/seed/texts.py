"""Texts of the forum's visitors, composed from lists of words."""

import random
import re

from agentrl.sites.forum.seed.topics import Topic

_ASKING = (
    'What is the best {thing} for a beginner?',
    'How do you {task} when time is short?',
    'Is a {kind} {thing} worth the money?',
    'Looking for a {kind} {thing} that lasts',
    'Where would you look for a {kind} {thing}?',
    'How long did it take you to {task}?',
    'What do you do with a {kind} {thing} you no longer want?',
    '{kind} {thing} or {thing2}: which one would you keep?',
    'Does anyone else still {task} every week?',
    'Help me to {task} before {month}',
    'Which {thing} changed your mind?',
    'Can one {task} on a small budget?',
)
_TELLING = (
    'My first {kind} {thing}, {n} weeks in',
    'Why I stopped trying to {task}',
    '{n} things I know now about the {thing}',
    'Finally managed to {task} after {n} months',
    'Unpopular opinion: the {kind} {thing} is overrated',
    'Please check your {thing} before {month}',
    'I kept a diary of my {kind} {thing} for {n} days',
    'In praise of the {kind} {thing}',
    'A {kind} {thing} saved my weekend',
    'Lessons from a {kind} {thing} and a {kind2} {thing2}',
    'I tried to {task} for {n} days, and this is how it went',
    'The {thing} I should have bought {n} years ago',
)
_LINKING = (
    "A beginner's guide to the {kind} {thing}",
    'How to {task}: {n} tips that work',
    'The strange history of the {thing}',
    'Study of {n}00 people: most never {task}',
    'The {thing} makes a comeback',
    'Inside the workshop where each {kind} {thing} is made',
    'Interview: she taught {n}00 people to {task}',
    'Report says the {kind} {thing} will be rare by {year}',
    'We tested {n} of them: the {kind} {thing} wins',
    'The quiet art of the {kind} {thing}',
)
_SHOWING = (
    'A {kind} {thing} near {place}',
    '{kind} {thing}, {month} in {place}',
    'The {thing} of {place} after the storm',
    'Found this {kind} {thing} on my way to {place}',
    'The same {kind} {thing}, {n} years later',
    'Morning at the {kind} {thing}, {place}',
)
_MONTHS = (
    'January', 'February', 'March', 'April', 'May', 'June', 'July', 'August',
    'September', 'October', 'November', 'December',
)  # fmt: skip
PLACES = (
    'Aldmere', 'Brookhaven', 'Cold Ferry', 'Dunmoor', 'Eastwick Sands',
    'Fennbridge', 'Grayport', 'Highmarsh', 'Ironvale', 'Kestrel Bay',
    'Larkfield', 'Millbeck', 'Norrby', 'Oldstead', 'Pinecrest', 'Quarry Hill',
    'Rowan Lock', 'Saltholm', 'Thornbury Edge', 'Upper Wend',
)  # fmt: skip
_LINKS = (
    'slowpaper.example', 'thelantern.example', 'fieldnotes.example',
    'openbench.example', 'dailyharbor.example', 'northreview.example',
    'kettle-and-key.example', 'longform.example',
)  # fmt: skip
_PICTURES = ('pictures.example', 'shutterbox.example')
_BODY = (
    'I have had a {kind} {thing} since {month} and still learn every week.',
    'My neighbour swears by the {thing}, but I am not so sure.',
    'The {thing} cost me about {n} dollars, which seemed fair.',
    'So far I have read two guides and both contradict each other.',
    'I live in {place}, so there is not much choice around here.',
    'What worked for you, and what would you never do again?',
    'Last {month} I tried to {task} and gave up after {n} minutes.',
    'Please be gentle, I only started {n} weeks ago.',
    'I will post an update when I know more.',
    'Any advice on the {kind2} {thing2} is welcome as well.',
    'It turns out that most of the work is being patient.',
    'I made a list of {n} points and will add yours to it.',
    'Nobody in {place} could help me, so here I am.',
    'The short version: take your time and keep notes.',
)
_OPENERS = (
    'I had the same problem last {month}.',
    'Great question.',
    'This is exactly right.',
    'I disagree, sorry.',
    'Thank you for writing this down.',
    'Same here in {place}.',
    'Not a popular view, but I agree.',
    'We talked about this {n} months ago.',
    'Take this with a grain of salt.',
    'Let me add one thing.',
    'I came here to say this.',
    'It depends.',
    'As somebody who has done it {n} times:',
    'Honestly?',
    'Good luck with that.',
    'My sister asked me the same.',
    'Long answer short:',
    'I would not worry.',
    'Careful there.',
    'Happy to help.',
)
_MIDDLES = (
    'A {kind} {thing} is fine as long as you look after it.',
    'Start with the cheapest {thing} and see whether you like it.',
    'It took me {n} attempts to {task}.',
    'The {thing} matters less than the {thing2}.',
    'I bought a {kind} {thing} in {place} and never looked back.',
    'You can borrow a {thing} from most libraries around {place}.',
    'Nobody needs more than one {kind} {thing}.',
    'If you want to {task}, do it in the morning.',
    'Most guides forget the {thing2} completely.',
    'There is a club in {place} that meets to {task}.',
    'I keep {n} of them in a drawer.',
    'Mine broke in {month} and I simply repaired it.',
    'The trick is to {task} a little every day.',
    'I would rather have a {kind2} {thing2}.',
    'You will regret a {kind} {thing} by {month}.',
    'A friend paid {n} dollars for hers and loves it.',
)
_CLOSERS = (
    'Hope that helps.',
    'Let us know how it goes.',
    'Pictures, please.',
    'Would do it again.',
    'Your mileage may vary.',
    'Do not tell my partner.',
    'Ask me anything.',
    'That is all I know.',
    'It was worth every minute.',
    'I learned that the hard way.',
    'Try it for {n} days.',
    'See you at the {thing}.',
    '',
    '',
)
_BIOGRAPHIES = (
    'I collect every {kind} {thing} that I can find.',
    'Mostly here to read. From {place}.',
    'Trying to {task} since {month}.',
    '{n} years on forums and still polite.',
    'Ask me about the {thing}.',
    'Weekends: {thing}. Weekdays: waiting for the weekend.',
    'Teacher in {place}, owner of one {kind} {thing}.',
    'I answer messages slowly, but I answer.',
)
_SIDEBAR = (
    'Be kind to newcomers. No advertising.',
    'Read the rules before you post. Pictures of your {thing} are welcome.',
    'Ask anything about the {thing}, but search first.',
    'Off-topic posts will be removed. Questions about the {thing} are fine.',
    'New here? Tell us about your first {thing}.',
)
_FIRST = (
    'amber', 'brisk', 'calm', 'dusty', 'early', 'fuzzy', 'gentle', 'hollow',
    'idle', 'jolly', 'keen', 'lucky', 'mellow', 'nimble', 'odd', 'plain',
    'quiet', 'rusty', 'silent', 'tidy', 'upper', 'vivid', 'windy', 'young',
)  # fmt: skip
_SECOND = (
    'acorn', 'badger', 'comet', 'dahlia', 'ember', 'falcon', 'gravel',
    'heron', 'inkwell', 'juniper', 'kettle', 'lantern', 'marble', 'nettle',
    'otter', 'pebble', 'quill', 'raven', 'sparrow', 'teapot', 'umbra',
    'violet', 'walnut', 'yarrow',
)  # fmt: skip
_VOWEL = re.compile('(?!uni|one)[aeiou]', re.IGNORECASE)


def names(chance: random.Random, count: int) -> list[str]:
  """Different names of visitors, such as `calm_otter` or `OddQuill31`."""
  pairs = [(a, b) for a in _FIRST for b in _SECOND]
  found = []
  for first, second in chance.sample(pairs, count):
    forms = (
        f'{first}_{second}',
        f'{first}{second}{chance.randrange(10, 99)}',
        f'{first.capitalize()}{second.capitalize()}',
        f'the_{first}_{second}',
    )
    found.append(chance.choice(forms))
  return found


def title(chance: random.Random, topic: Topic, kind: str) -> str:
  """The title of a submission.

  Args:
    chance: of the draws.
    topic: of its forum.
    kind: 'ask', 'tell', 'link' or 'show'.
  """
  forms = {'ask': _ASKING, 'tell': _TELLING, 'link': _LINKING, 'show': _SHOWING}
  text = _filled(chance, topic, chance.choice(forms[kind]))
  return text[0].upper() + text[1:]


def body(chance: random.Random, topic: Topic) -> str:
  """The text of a submission, one or two paragraphs."""
  lines = [
      _filled(chance, topic, form)
      for form in chance.sample(_BODY, chance.randrange(2, 5))
  ]
  cut = chance.randrange(1, len(lines) + 1)
  parts = (' '.join(lines[:cut]), ' '.join(lines[cut:]))
  return '\n\n'.join(part for part in parts if part)


def comment(chance: random.Random, topic: Topic) -> str:
  """The text of a comment, in one line."""
  forms = (chance.choice(x) for x in (_OPENERS, _MIDDLES, _CLOSERS))
  return ' '.join(_filled(chance, topic, form) for form in forms).strip()


def biography(chance: random.Random, topic: Topic) -> str:
  """What a visitor says of himself or herself."""
  return _filled(chance, topic, chance.choice(_BIOGRAPHIES))


def sidebar(chance: random.Random, topic: Topic) -> str:
  """The text beside a forum's submissions."""
  return _filled(chance, topic, chance.choice(_SIDEBAR))


def address(chance: random.Random, title_of: str, *, picture: bool) -> str:
  """An address that a submission links to; nothing is there."""
  host = chance.choice(_PICTURES if picture else _LINKS)
  words = ''.join(c if c.isalnum() else ' ' for c in title_of.lower()).split()
  name = '-'.join(words[:6])
  number = chance.randrange(1000, 10000)
  if picture:
    return f'https://{host}/{name}-{number}.jpg'
  return f'https://{host}/{number}/{name}'


def _filled(chance: random.Random, topic: Topic, form: str) -> str:
  things = chance.sample(topic.things, 2)
  kinds = chance.sample(topic.kinds, 2)
  text = form.format(
      thing=things[0],
      thing2=things[1],
      kind=kinds[0],
      kind2=kinds[1],
      task=chance.choice(topic.tasks),
      n=chance.randrange(3, 40),
      month=chance.choice(_MONTHS),
      year=chance.randrange(2026, 2041),
      place=chance.choice(PLACES),
  )
  words = text.split(' ')
  for place, word in enumerate(words[:-1]):
    if word in ('a', 'A') and _VOWEL.match(words[place + 1]):
      words[place] += 'n'
  return ' '.join(words)
