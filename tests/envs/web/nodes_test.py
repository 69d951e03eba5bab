"""Trees and snapshots of Chromium as nodes and text."""

import random

from hypothesis import given, strategies as st

from agentrl.envs.web import nodes, page_text
from agentrl.envs.web.nodes import Node


def raw(number, role, name='', *children, ignored=False, value='', **states):
  """A node of an accessibility tree, and those below it."""
  found = {
      'nodeId': str(number),
      'backendDOMNodeId': number,
      'ignored': ignored,
      'role': {'value': role},
      'name': {'value': name},
      'value': {'value': value},
      'properties': [
          {'name': key, 'value': {'value': x}} for key, x in states.items()
      ],
      'childIds': [child[0]['nodeId'] for child in children],
  }
  for child in children:
    child[0]['parentId'] = found['nodeId']
  return [found, *(node for child in children for node in child)]


def lines(tree, **options):
  return page_text.tree(nodes.from_tree([tree], **options)).split('\n')


def test_a_tree_is_written_as_webarena_has_it():
  tree = raw(
      1, 'RootWebArea', 'Shop',
      raw(5, 'generic', '',
          raw(9, 'button', 'Send', raw(10, 'StaticText', 'Send'), focused=True)),
      raw(7, 'textbox', 'Name', value='Ann', required=True),
      raw(8, 'checkbox', 'Gift', checked='mixed', focusable=True),
  )  # fmt: skip
  assert lines(tree) == [
      "[1] RootWebArea 'Shop'",
      "\t[2] button 'Send' focused: true",
      "\t[3] textbox 'Name' value: 'Ann' required: true",
      "\t[4] checkbox 'Gift' checked: mixed",
  ]


def test_numbers_are_ours_in_the_order_of_the_page():
  tree = raw(40, 'RootWebArea', '', raw(90, 'link', 'b'), raw(12, 'link', 'a'))
  found = nodes.from_tree([tree])
  assert [node.number for node in found] == [1, 2, 3]
  assert [node.backend for node in found] == [40, 90, 12]


def test_boxes_without_a_name_or_a_role_are_left_out():
  tree = raw(
      1, 'RootWebArea', '',
      raw(2, 'list', '', raw(3, 'listitem', '', raw(4, 'StaticText', 'one'))),
      raw(5, 'img'), raw(6, 'img', 'a cat'), raw(7, 'StaticText', '  '),
      raw(8, 'button', 'hidden', ignored=True),
  )  # fmt: skip
  assert lines(tree) == [
      "[1] RootWebArea ''", "\t[2] StaticText 'one'", "\t[3] img 'a cat'"
  ]  # fmt: skip


def test_icons_that_listen_to_clicks_are_shown_unless_they_hold_something():
  tree = raw(
      1, 'RootWebArea', '',
      raw(2, 'generic'), raw(3, 'none', ignored=True),
      raw(4, 'generic', '', raw(5, 'StaticText', 'open')),
  )  # fmt: skip
  assert lines(tree, labels={2: 'star', 3: 'trash', 4: 'card'}) == [
      "[1] RootWebArea ''",
      "\t[2] clickable 'star'",
      "\t[3] clickable 'trash'",
      "\t[4] StaticText 'open'",
  ]


def test_frames_follow_their_page():
  page = raw(1, 'RootWebArea', 'page', raw(2, 'Iframe'))
  frame = raw(3, 'RootWebArea', 'frame', raw(4, 'link', 'in'))
  text = page_text.tree(nodes.from_tree([page, [], frame]))
  assert text == (
      "[1] RootWebArea 'page'\n[2] RootWebArea 'frame'\n\t[3] link 'in'"
  )


def test_a_page_may_be_nested_deeply():
  deepest = raw(20_001, 'link', 'bottom')
  tree = [*deepest]
  for number in range(20_000, 0, -1):
    top = raw(number, 'generic', '', [tree[-1]])
    tree.append(top[0])
  tree.reverse()
  assert lines(tree) == ["[1] link 'bottom'"]


ROLES = st.sampled_from([
    'generic',
    'button',
    'StaticText',
    'list',
    'listitem',
    'link',
    'none',
    'img',
])


@given(st.randoms(use_true_random=False), st.integers(1, 40), st.data())
def test_any_tree_is_numbered_without_gaps(rng, size, data):
  below = {k: [] for k in range(size)}
  for k in range(1, size):
    below[rng.randrange(k)].append(k)

  def build(k):
    return raw(
        k + 1, data.draw(ROLES), rng.choice(['', 'a', 'b b']),
        *map(build, below[k]), ignored=rng.random() < 0.2,
    )  # fmt: skip

  labels = {k: 'x' for k in rng.sample(range(1, size + 1), size // 3)}
  hidden = set(rng.sample(range(1, size + 1), size // 4))
  found = nodes.from_tree(
      [build(0)], labels=labels, visible=lambda k: k not in hidden
  )
  assert [node.number for node in found] == list(range(1, len(found) + 1))
  backends = [node.backend for node in found]
  assert len(set(backends)) == len(backends) and not hidden & set(backends)
  assert page_text.tree(found).count('\n') == max(len(found) - 1, 0)


def test_a_text_with_line_ends_stays_on_its_line():
  found = (Node(1, 1, 0, 'textbox', 'a', value='x\ny', states=(('k', 'v'),)),)
  assert page_text.tree(found) == "[1] textbox 'a' value: 'x\\ny' k: v"


# --- few tokens


def lean(tree, **options):
  return page_text.lean(nodes.from_tree([tree], **options)).split('\n')


def test_lean_pages_number_controls_alone():
  tree = raw(
      1, 'RootWebArea', 'Shop',
      raw(2, 'heading', 'Order 12', raw(3, 'StaticText', 'Order 12')),
      raw(4, 'button', 'Send', focused=True, focusable=True),
      raw(5, 'textbox', 'Name', raw(6, 'StaticText', 'Ann'), value='Ann\nLee',
          required=True),
      raw(7, 'checkbox', 'Gift', checked='false'),
      raw(8, 'checkbox', 'Card', checked='true', focusable=True),
      raw(9, 'StaticText', 'Thanks.'),
      focused=True, focusable=True,
  )  # fmt: skip
  assert lean(tree) == [
      'Shop',
      'Order 12',
      '[3] button Send (focused)',
      '[4] textbox Name: Ann\\nLee (required)',
      '[6] checkbox Gift',
      '[7] checkbox Card (checked)',
      'Thanks.',
  ]


def test_lean_pages_say_a_row_once():
  row = raw(
      2, 'row', 'Tea 3 Edit',
      raw(3, 'cell', 'Tea', raw(4, 'link', 'Tea')),
      raw(5, 'cell', '3', raw(6, 'StaticText', '3')),
      raw(7, 'cell', 'Edit', raw(8, 'button', 'Edit')),
  )  # fmt: skip
  table = raw(1, 'RootWebArea', '', raw(9, 'table', 'Stock', row))
  assert lean(table) == ['Stock', '[5] link Tea', '3', '[8] button Edit']


def test_lean_pages_number_what_listens_to_clicks():
  tree = raw(
      1, 'RootWebArea', '',
      raw(2, 'generic', '',
          raw(3, 'StaticText', 'card'), raw(4, 'StaticText', 'text')),
      raw(5, 'StaticText', 'plain'), raw(6, 'heading', 'title', focusable=True),
  )  # fmt: skip
  assert lean(tree, labels={2: 'box'}) == [
      '[2] StaticText card',
      '[3] StaticText text',
      'plain',
      '[5] heading title',
  ]


def test_pages_of_controls_have_no_texts_but_the_title():
  tree = raw(
      1, 'RootWebArea', 'Shop',
      raw(2, 'StaticText', 'Welcome.'), raw(3, 'heading', 'Order 12'),
      raw(4, 'generic', '', raw(5, 'StaticText', 'Name')),
      raw(6, 'textbox', 'Name', value='Ann'),
      raw(7, 'StaticText', 'yes'), raw(8, 'button', 'Send'),
  )  # fmt: skip
  found = nodes.from_tree([tree], labels={4: 'label', 7: 'own'})
  assert page_text.lean(found, texts=False).split('\n') == [
      'Shop',
      '[5] textbox Name: Ann',
      '[6] StaticText yes',
      '[7] button Send',
  ]


def test_parts_that_pages_share_are_marked():
  menu = lambda number: raw(number, 'navigation', '', raw(number + 1, 'link'))
  tree = raw(
      1, 'RootWebArea', '',
      raw(2, 'banner', '', raw(3, 'main', '', raw(4, 'link'))), menu(5),
      raw(7, 'main', '', raw(8, 'link'), menu(9)),
      raw(11, 'contentinfo', '', raw(12, 'link')),
  )  # fmt: skip
  found = nodes.from_tree([tree])
  shared = [node.backend for node in found if node.navigation]
  assert shared == [4, 6, 12]
  assert [node.backend for node in found] == [1, 4, 6, 8, 10, 12]


@given(st.randoms(use_true_random=False), st.integers(1, 40), st.data())
def test_lean_pages_keep_every_control_and_every_word(rng, size, data):
  below = {k: [] for k in range(size)}
  for k in range(1, size):
    below[rng.randrange(k)].append(k)

  def build(k):
    return raw(
        k + 1, data.draw(ROLES), rng.choice(['', 'a', 'b b', f'word{k}']),
        *map(build, below[k]),
    )  # fmt: skip

  found = nodes.from_tree([build(0)])
  text = page_text.lean(found)
  assert set(text.split()) >= {w for n in found for w in n.name.split()}
  numbers = [f'[{node.number}]' for node in found if node.control]
  assert [w for w in text.split() if w.startswith('[')] == numbers
  few = page_text.lean(found, texts=False).split('\n')
  assert set(few) <= {*text.split('\n'), ''}


# --- snapshots


class Snapshot:
  """Builds replies of DOMSnapshot.captureSnapshot."""

  def __init__(self):
    self.strings, self.documents = [''], []

  def text(self, value):
    self.strings.append(value)
    return len(self.strings) - 1

  def add(self, elements, scroll=0, frames=()):
    """A document: (parent, tag or #text, text, attributes, bounds, clicks)."""
    sparse = lambda found: {'index': list(found), 'value': list(found.values())}
    nodes_ = {
        'parentIndex': [x[0] for x in elements],
        'nodeType': [3 if x[1] == '#text' else 1 for x in elements],
        'nodeName': [self.text(x[1].upper()) for x in elements],
        'nodeValue': [self.text(x[2]) for x in elements],
        'backendNodeId': [
            100 * len(self.documents) + k for k in range(len(elements))
        ],
        'attributes': [
            [self.text(y) for pair in x[3].items() for y in pair]
            for x in elements
        ],
        'inputValue': sparse({}), 'textValue': sparse({}),
        'inputChecked': {'index': []}, 'optionSelected': {'index': []},
        'contentDocumentIndex': sparse(dict(frames)),
        'isClickable': {'index': [k for k, x in enumerate(elements) if x[5]]},
    }  # fmt: skip
    laid_out = [(k, x[4]) for k, x in enumerate(elements) if x[4]]
    self.documents.append({
        'nodes': nodes_,
        'scrollOffsetY': scroll,
        'layout': {
            'nodeIndex': [k for k, _ in laid_out],
            'bounds': [list(bounds) for _, bounds in laid_out],
            # Of `visibility`, here the attribute of that name.
            'styles': [
                [self.text(elements[k][3].get('visibility', 'visible'))]
                for k, _ in laid_out
            ],
        },
    })
    return self

  def reply(self):
    return {'strings': self.strings, 'documents': self.documents}


BOX = (0, 0, 10, 10)


def test_elements_are_written_as_html():
  snapshot = Snapshot().add([
      (-1, 'html', '', {}, BOX, False),
      (0, 'body', '', {}, BOX, False),
      (1, 'div', '', {'id': 'a', 'onclick': 'f()', 'hidden': ''}, BOX, False),
      (2, '#text', '  two\n words ', {}, BOX, False),
      (2, 'script', '', {}, None, False),
      (2, 'b', '', {}, BOX, False),
      (5, '#text', 'bold', {}, BOX, False),
      (1, 'i', '', {}, None, False),
      (1, 'u', '', {'visibility': 'hidden'}, BOX, False),
      (8, '#text', 'unseen', {'visibility': 'hidden'}, BOX, False),
      (1, '::before', '', {}, BOX, False),
  ])
  text = page_text.html(nodes.from_snapshot(snapshot.reply()))
  assert text == '[1] <div id="a" hidden>two words</div>\n\t[2] <b>bold</b>'


def test_labels_of_clickable_elements():
  snapshot = Snapshot().add([
      (-1, 'html', '', {}, BOX, True),
      (0, 'span', '', {'class': 'c', 'id': 'i', 'title': 't'}, BOX, True),
      (0, 'span', '', {'class': 'c', 'id': 'i'}, BOX, True),
      (0, 'span', '', {'class': 'c' * 99}, BOX, True),
      (0, 'span', '', {}, BOX, True),
      (0, 'span', '', {'id': 'flat'}, (0, 0, 0, 10), True),
      (0, 'span', '', {'id': 'unseen'}, None, True),
      (0, 'span', '', {'id': 'deaf'}, BOX, False),
  ])
  assert nodes.clickables(snapshot.reply()) == {
      1: 't', 2: 'i', 3: 'c' * 80, 4: 'span'
  }  # fmt: skip


def test_what_is_in_view_follows_scrolling_and_frames():
  place = lambda y, h=10: (0, 'p', '', {}, (0, y, 10, h), False)
  snapshot = (
      Snapshot()
      .add(
          [place(0), place(100), place(195), place(300, 40), place(319),
           place(320), place(900, 50)],
          scroll=100, frames={3: 1, 6: 2},
      )
      .add([place(0), place(25), place(45)], scroll=20)
      .add([place(0)])
      .reply()
  )  # fmt: skip
  visible = nodes.in_view(snapshot, 50, 220)
  assert [k for k in range(7) if visible(k)] == [1, 2, 3, 4]
  # The frame's own begin is 20 above the 200 where it is.
  assert [k for k in range(3) if visible(100 + k)] == [1]
  assert not visible(200)


def test_a_shuffled_tree_is_read_alike():
  tree = raw(
      1, 'RootWebArea', '', *(raw(k, 'link', f'l{k}') for k in range(2, 30))
  )
  shuffled = [tree[0], *random.Random(0).sample(tree[1:], len(tree) - 1)]
  assert lines(tree) == lines(shuffled)


def test_places_of_nodes_are_those_in_the_viewport():
  shown = [Node(1, 40, 0, 'link'), Node(2, 90, 0, 'link'), Node(3, 7, 0, 'img')]
  document = {
      'scrollOffsetX': 0,
      'scrollOffsetY': 100,
      'nodes': {'backendNodeId': [40, 90, 12]},
      'layout': {
          'nodeIndex': [0, 1, 2],
          'bounds': [[5, 120, 30, 10], [5, 300, 0, 0], [0, 0, 9, 9]],
      },
  }
  # The second takes no room, the third is of another document.
  assert nodes.boxes({'documents': [document]}, shown) == {1: [5, 20, 30, 10]}
