"""Word lists of which the forge's texts are composed."""

import random
from collections.abc import Sequence

FIRST = (
    'Alma', 'Anton', 'Aria', 'Basil', 'Bruno', 'Carla', 'Cedric', 'Clara',
    'Dario', 'Delia', 'Edda', 'Elio', 'Enid', 'Felix', 'Flora', 'Gareth',
    'Greta', 'Hanno', 'Hilda', 'Ida', 'Ilya', 'Ines', 'Jonas', 'Juno', 'Kaspar',
    'Kira', 'Lasse', 'Leona', 'Linus', 'Mabel', 'Marek', 'Mina', 'Nadia',
    'Niels', 'Olga', 'Oskar', 'Petra', 'Quinn', 'Rafi', 'Rosa', 'Selma',
    'Silas', 'Tamar', 'Theo', 'Ursel', 'Viggo', 'Wanda', 'Yara', 'Yusuf', 'Zoe',
)  # fmt: skip
LAST = (
    'Abelson', 'Achterberg', 'Baumhof', 'Birkwood', 'Calloway', 'Castellan',
    'Dornfeld', 'Dunmore', 'Eastlake', 'Ellingham', 'Falkner', 'Fennick',
    'Garrity', 'Grunwald', 'Halloran', 'Heatherby', 'Ingersoll', 'Ivanka',
    'Jasperson', 'Kestrel', 'Kirkbride', 'Lanternby', 'Lindholm', 'Marlowe',
    'Mossgrove', 'Nightwell', 'Norling', 'Oakhurst', 'Ostrander', 'Pemberly',
    'Quillfeather', 'Ravenel', 'Rosenkranz', 'Saltmarsh', 'Sorrelby',
    'Thistleton', 'Tollefsen', 'Underhill', 'Vandermeer', 'Vesterby',
    'Wetherell', 'Winterbourne', 'Yarrow', 'Zimmerling',
)  # fmt: skip
PLACES = (
    'Aldmere', 'Brackwater', 'Cliffhaven', 'Dunbridge', 'Eastmarsh', 'Fennport',
    'Greyford', 'Highmoor', 'Islefield', 'Lakewood', 'Mistvale', 'Northwick',
    'Oldbarrow', 'Pinehollow', 'Rookstead', 'Stonequay',
)  # fmt: skip
JOBS = (
    'Backend developer', 'Frontend developer', 'Student', 'Data analyst',
    'Site reliability engineer', 'Designer', 'Technical writer', 'Teacher',
    'Embedded engineer', 'Researcher', 'Product manager', 'Librarian',
)  # fmt: skip
COMPANIES = (
    'Harbor Labs', 'Blue Heron Software', 'Kettle & Quill', 'Northlight',
    'Oakhurst College', 'Pebble Transit', 'Seabird Research', 'Tall Ship Data',
    'Rookstead Library', 'Freelance',
)  # fmt: skip
STATUSES = (
    'On holiday', 'Reviewing', 'In meetings', 'Deep work', 'Moving house',
    'Half days this week', 'Looking for reviewers', 'Back on Monday',
)  # fmt: skip
FEATURES = (
    'dark mode', 'keyboard shortcuts', 'undo', 'CSV export', 'pagination',
    'drag and drop', 'a search box', 'rate limiting', 'screen reader labels',
    'caching', 'a retry button', 'single sign-on', 'plugins', 'webhooks',
    'tooltips', 'a progress bar', 'right-to-left text', 'offline use',
    'high contrast', 'touch gestures', 'a preview', 'bulk editing', 'filters',
    'time zones', 'a quiet mode', 'verbose logging', 'metric units', 'themes',
)  # fmt: skip
_FAILS = (
    'crashes', 'shows a blank area', 'is in the wrong order', 'loses its state',
    'is very slow', 'throws an exception', 'ignores the settings', 'flickers',
    'prints garbled characters', 'leaks memory', 'never finishes', 'is cut off',
    'returns a 404', 'returns a 502', 'is shown twice', 'overflows',
)  # fmt: skip
_WHEN = (
    'on Safari', 'with an empty file', 'after the last upgrade', 'when offline',
    'behind a proxy', 'on narrow screens', 'with more than 500 rows',
    'when the name has an umlaut', 'in dark mode', 'after midnight UTC',
    'on the second visit', 'with a read-only folder', 'on Windows',
    'when two tabs are open', 'with large fonts', 'after waking from sleep',
)  # fmt: skip
_TITLES = {
    'bug': ('{Part} {fails} {when}', 'Bug: {part} {fails} {when}'),
    'feature': (
        'Add {feature} to the {part}',
        'Support {feature} in the {part}',
        'Feature request: {feature} for the {part}',
    ),
    'documentation': (
        'Document the {part}',
        'Typo in the chapter about the {part}',
        'README should mention {feature} of the {part}',
        'Explain {feature} in the docs of the {part}',
    ),
    'question': (
        'How do I turn off {feature} in the {part}?',
        'Is {feature} planned for the {part}?',
        'Why does the {part} need {feature}?',
    ),
    'chore': (
        'Update dependencies of the {part}',
        'Flaky test of the {part} on CI',
        'Refactor the {part} for better readability',
        'Remove unused code from the {part}',
    ),
}
KINDS = tuple(_TITLES)
_OPENINGS = {
    'bug': (
        'Since version {version} the {part} {fails} {when}.',
        'I can reproduce this each time: the {part} {fails} {when}.',
        'The {part} {fails} {when}, but only for some of our users.',
    ),
    'feature': (
        'It would help us a lot to have {feature} in the {part}.',
        'Several people in our team miss {feature} here.',
        'We built {feature} for the {part} in a fork and could send it.',
    ),
    'documentation': (
        'New contributors ask about the {part} every week.',
        'The chapter on the {part} still describes version {version}.',
    ),
    'question': (
        'I looked through the docs of the {part} and found nothing.',
        'Maybe I misunderstand how the {part} is meant to be used.',
    ),
    'chore': (
        'The {part} has not been touched since version {version}.',
        'This came up while working on {feature}.',
    ),
}
_DETAILS = (
    'The log shows nothing unusual.',
    'Restarting helps for about {number} minutes.',
    'It worked in version {version}.',
    'Steps: open the {part}, wait for it to load, then change the size.',
    'I attached what I could find; ask if more is needed.',
    'A smaller example with {number} lines is in my fork.',
    'This affects roughly {number} people at our site.',
    'Happy to work on it if somebody points me to the right place.',
    'Expected: the {part} stays as it was.',
    'We could start with {feature} and see how it goes.',
    'Tested on two machines with the same result.',
    'See also the discussion on the mailing list from last month.',
    'It is not urgent, but it would be nice for the next release.',
    '<b>Note:</b> the default of {number} seems too low to me.',
)
_REPLIES = (
    'I can confirm this with version {version}.',
    'Thanks for the report, I will have a look at the {part}.',
    'Could you share the configuration that you use?',
    'This is a duplicate, I think, but this one has more detail.',
    'Fixed on my branch, a merge request follows.',
    'I would rather keep the {part} simple.',
    'Setting the limit to {number} works around it.',
    'Same here, on {number} machines.',
    'Any news? We would like to use {feature} soon.',
    'The design looks fine to me, please go ahead.',
    'Can we move this to the next milestone?',
    'A test for the {part} would be good before we close this.',
    'It only happens with {feature}.',
    'Not reproducible for me after {number} tries.',
)
_REVIEWS = (
    'Could you rebase this? There is a conflict in the {part}.',
    'Looks good, two small remarks inline.',
    'Why {number} here and not a constant?',
    'I tested this with {feature} and it works.',
    'Please add a line to the changelog.',
    'The pipeline fails in the {part} job.',
    'Done, have another look please.',
    'Renamed it as you proposed.',
    'I split the {part} out into its own file.',
    'This changes the behaviour of the {part}; is that intended?',
    'Can we have a test that covers {feature}?',
    'Good catch, fixed in the last commit.',
)
_CHANGES = (
    'Fix {part} {when}',
    'Add {feature} to the {part}',
    'Refactor the {part}',
    'Speed up the {part}',
    'Test the {part} with {feature}',
    'Rename helpers of the {part}',
    'Remove dead code from the {part}',
    'Update the docs of the {part}',
    'Handle errors in the {part}',
    'Make the {part} accessible',
)
_COMMITS = (
    *_CHANGES,
    'Bump version to {version}',
    'Fix typo in the {part}',
    'Fix lint warnings',
    'Use {number} as the default of the {part}',
    'Add a changelog entry for the {part}',
    'Revert "Speed up the {part}"',
    'Simplify the {part}',
    'Log more about the {part}',
)
LICENSES = {
    'MIT License': 'MIT',
    'Apache License 2.0': 'Apache-2.0',
    'GNU General Public License v3.0': 'GPL-3.0-only',
    'BSD 3-Clause License': 'BSD-3-Clause',
    'Mozilla Public License 2.0': 'MPL-2.0',
}


def license_text(name: str) -> str:
  """The content of a LICENSE file.

  Args:
    name: a key of `LICENSES`.
  """
  return (
      f'{name}\n\nSPDX-License-Identifier: {LICENSES[name]}\n\nThe authors'
      ' share this work under the terms of this license.'
  )


def compose(form: str, chance: random.Random, parts: Sequence[str]) -> str:
  """Fills a form of the lists above for a project with these parts."""
  part = chance.choice(parts)
  return form.format(
      part=part,
      Part=part.capitalize(),
      feature=chance.choice(FEATURES),
      fails=chance.choice(_FAILS),
      when=chance.choice(_WHEN),
      version=f'{chance.randrange(4)}.{chance.randrange(12)}',
      number=chance.randrange(3, 90),
  )


def issue(
    kind: str, chance: random.Random, parts: Sequence[str]
) -> tuple[str, str]:
  """Title and description of an issue of a kind of `KINDS`."""
  part = (chance.choice(parts),)
  title = compose(chance.choice(_TITLES[kind]), chance, part)
  said = [chance.choice(_OPENINGS[kind])]
  said += chance.sample(_DETAILS, chance.randrange(1, 3))
  return title, '\n\n'.join(compose(x, chance, part) for x in said)


def change(chance: random.Random, parts: Sequence[str]) -> tuple[str, str]:
  """Title and description of a merge request."""
  part = (chance.choice(parts),)
  title = compose(chance.choice(_CHANGES), chance, part)
  return title, compose(chance.choice(_DETAILS), chance, part)


def reply(chance: random.Random, parts: Sequence[str]) -> str:
  """A comment on an issue."""
  return compose(chance.choice(_REPLIES), chance, parts)


def review(chance: random.Random, parts: Sequence[str]) -> str:
  """A comment on a merge request."""
  return compose(chance.choice(_REVIEWS), chance, parts)


def commit(chance: random.Random, parts: Sequence[str]) -> str:
  """The message of a commit."""
  return compose(chance.choice(_COMMITS), chance, parts)
