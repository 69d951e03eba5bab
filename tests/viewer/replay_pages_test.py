"""Replay, tokens, groups, live play and exports in a real Chromium."""

import json
import pathlib
import re
import tarfile

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.viewer import asking, axe, played, runs, tokens_test
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
FILE = 'episodes/train/000000.jsonl'
ARCHIVE = pathlib.Path(__file__).parents[1] / 'fixtures' / 'old_run.tar.xz'


def address(url, name, run='run', line=0, **params):
  rest = ''.join(f'&{key}={value}' for key, value in params.items())
  return f'{url}#/{name}?runs={run}&file={FILE}&line={line}{rest}'


# A block of each environment's view, and a text in it at the end.
SEEN = {
  'textcraft': '.tree .done',
  'babyai': '.frame img',
  'sciworld': 'meter',
  'searchqa': '.passage mark',
  'miniwob': '.frame img',
  'webarena': '.frame img',
}  # fmt: skip


@pytest.mark.parametrize('env', SEEN)
def test_an_experts_episode_is_replayed_to_its_end_by_keyboard(
    env, tmp_path, viewer, page
):
  pictures = env in ('miniwob', 'webarena')
  episode = played.expert_episode(env, views=pictures)
  assert episode.turns
  runs.write(tmp_path, episodes=[episode], env=env, **played.options(env))
  page.goto(address(viewer(tmp_path), 'replay'))
  place = page.locator('.place')
  total = len(episode.turns)
  assert place.text_content() == f'0 of {total}'
  page.locator('.stage .turn').wait_for()
  page.keyboard.press('ArrowRight')
  page.locator('.stage h2', has_text='Turn 1').wait_for()
  assert episode.turns[0].action in page.locator('.stage .said').text_content()
  page.keyboard.press('End')
  page.locator('.stage h2', has_text=f'Turn {total}').wait_for()
  assert place.text_content() == f'{total} of {total}'
  assert f'turn={total}' in page.url
  page.keyboard.press('ArrowRight')  # there is no further one
  assert place.text_content() == f'{total} of {total}'
  if env == 'babyai':  # what was not saved is drawn by playing again
    page.get_by_role('button', name='Play it again').click()
    page.locator('.again .good').wait_for(timeout=60_000)
  page.locator(f'.world {SEEN[env]}').first.wait_for()
  page.keyboard.press('Home')
  page.keyboard.press('Space')
  page.locator('.stage h2', has_text='Turn 1').wait_for()
  assert page.get_by_role('button', name='Pause').is_visible() or total == 1


@pytest.mark.parametrize('success', [False, True])
def test_a_failed_episode_opens_at_its_end(success, tmp_path, viewer, page):
  runs.write(tmp_path, episodes=[runs.episode(turns=3, success=success)] * 2)
  url = viewer(tmp_path)
  place = page.locator('.place')
  page.goto(address(url, 'replay'))
  expect(place).to_have_text('0 of 3' if success else '3 of 3')
  page.keyboard.press('Home')
  expect(place).to_have_text('0 of 3')
  page.reload()  # the address has the turn, also the one before the first
  expect(place).to_have_text('0 of 3')
  page.get_by_text('Next', exact=True).click()
  expect(page).to_have_url(re.compile('line=1'))
  expect(place).to_have_text('0 of 3' if success else '3 of 3')
  page.goto(address(url, 'replay', turn=2))
  expect(place).to_have_text('2 of 3')


def faulty(**values):
  """An episode with a fault of each kind in its third, fifth and seventh turn."""
  turns = [runs.turn(i) for i in range(230)]
  turns[2] = runs.turn(2, action='', parse_error='no Action: line')
  turns[4] = runs.turn(4, observation="You cannot do 'go 4' now.")
  # Both answer what turn 6 has shown.
  turns[6] = runs.turn(6, action='toggle', observation=turns[5].observation)
  turns[7] = runs.turn(7, action='toggle', observation=turns[5].observation)
  return runs.episode('long', made=tuple(turns), horizon=300, **values)


@pytest.mark.parametrize('success', [False, True])
def test_a_transcript_opens_at_the_first_fault(success, tmp_path, viewer, page):
  runs.write(tmp_path, episodes=[faulty(success=success), runs.episode('e1')])
  page.goto(address(viewer(tmp_path), 'transcript'))
  turn = lambda number: page.get_by_role(
      'heading', name=f'Turn {number}', exact=True
  )
  expect(page.locator('.transcript .turns > article')).to_have_count(101)
  if success:  # from its beginning
    expect(page.get_by_role('heading', name='Prompt')).to_be_in_viewport()
    return
  expect(turn(3)).to_be_in_viewport()
  expect(page).to_have_url(re.compile('turn=3'))
  place = lambda words: page.get_by_role('button', name=words)
  place('First refused action: turn 5 (of 1)').click()
  expect(turn(5)).to_be_in_viewport()
  place('First repeated action: turn 8 (of 1)').click()
  expect(turn(8)).to_be_in_viewport()
  place('Show 100 of 130 more turns').click()
  expect(page.locator('.transcript .turns > article')).to_have_count(201)
  place('End').click()
  expect(turn(230)).to_be_in_viewport()
  page.get_by_role('link', name='Next').click()
  expect(page.get_by_role('heading', name='e1')).to_be_visible()
  expect(turn(3)).to_be_in_viewport()  # without a fault, its last one
  page.go_back()
  expect(page.get_by_role('heading', name='long')).to_be_visible()


@pytest.mark.parametrize('wide', [1440, 390])
def test_a_transcript_is_accessible_and_not_too_wide(
    wide, tmp_path, viewer, page
):
  runs.write(tmp_path, episodes=[faulty()])
  page.set_viewport_size({'width': wide, 'height': 800})
  page.goto(address(viewer(tmp_path), 'transcript', turn=8))
  expect(page.locator('.transcript .fault')).to_have_count(3)
  assert axe.findings(page) == []
  over = 'document.documentElement.scrollWidth - innerWidth'
  assert page.evaluate(over) <= 0


def test_headings_of_tokens_leave_no_level_out(tmp_path, viewer, page):
  tokens_test.write(tmp_path, tokens_test.arrays(np.random.default_rng(5)))
  page.goto(address(viewer(tmp_path), 'tokens', line=1))
  page.locator('.tokens-flow').wait_for()
  levels = [
      int(each.evaluate('x => x.tagName')[1])
      for each in page.locator(':is(h1, h2, h3, h4)').all()
  ]
  assert levels[0] == 1 and len(levels) > 2
  assert all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))


@pytest.mark.parametrize('scheme', ['light', 'dark'])
@pytest.mark.parametrize('name', ['tokens', 'group'])
def test_axe_finds_nothing_serious(name, scheme, tmp_path, viewer, page):
  tokens_test.write(tmp_path, tokens_test.arrays(np.random.default_rng(5)))
  page.emulate_media(color_scheme=scheme)
  page.goto(address(viewer(tmp_path), name, line=1, turn=1, token=4))
  page.locator('.turn, .values dd').first.wait_for()
  assert axe.findings(page) == []


def test_the_next_episode_takes_the_place_of_this(tmp_path, viewer, page):
  runs.write(tmp_path)
  page.goto(address(viewer(tmp_path), 'replay', turn=2))
  page.locator('.stage h2', has_text='Turn 2').wait_for()
  page.get_by_role('link', name='Next', exact=True).click()
  page.get_by_role('heading', name='e1').wait_for()
  expect(page.locator('.place')).to_have_text('3 of 3')  # it failed
  page.keyboard.press('ArrowLeft')  # one player hears it
  page.locator('.stage h2', has_text='Turn 2').wait_for()
  page.go_back()
  page.get_by_role('heading', name='e0').wait_for()


def test_hostile_and_long_texts_stay_text(tmp_path, viewer, page):
  text = '<img src=x onerror="document.title=\'owned\'">\x1b[2J\u202egnp'
  long = 'x' * 1_000_000
  made = (runs.turn(0, observation=text, completion=text, action=text),
          runs.turn(1, observation=long))  # fmt: skip
  runs.write(tmp_path, episodes=[runs.episode(made=made)])
  url = viewer(tmp_path)
  page.goto(address(url, 'replay', turn=1))
  heard = page.locator('.stage .heard pre')
  shown = heard.text_content()
  assert '<img src=x' in shown and '\\u202e' in shown and '\x1b' not in shown
  assert page.locator('.stage img').count() == 0
  page.keyboard.press('ArrowRight')
  page.locator('.stage h2', has_text='Turn 2').wait_for()
  assert len(heard.text_content()) < 10_000
  page.get_by_role('button', name='more characters').click()
  # The page forbids what `wait_for_function` needs to look a second time.
  for _ in range(200):
    if len(heard.text_content()) > 100_000:
      break
    page.wait_for_timeout(50)
  assert len(heard.text_content()) > 100_000
  page.goto(address(url, 'group'))
  page.locator('.aligned .act').first.wait_for()
  assert page.title() != 'owned' and page.locator('.group img').count() == 0


def test_a_huge_episode_opens_without_its_whole_text(tmp_path, viewer, page):
  piece = 'y' * 1_000_000
  made = tuple(runs.turn(i, observation=piece) for i in range(100))
  path = runs.write(tmp_path, episodes=[runs.episode(made=made)])
  assert path.stat().st_size > 100_000_000
  url = viewer(tmp_path)
  assert wait_until(lambda: asking.get(url, 'episodes')['rows'])
  page.goto(address(url, 'replay', turn=50))
  page.locator('.stage h2', has_text='Turn 50').wait_for()
  assert len(page.content()) < 200_000


def test_the_token_page_has_the_arrays_of_the_update(tmp_path, viewer, page):
  values = tokens_test.arrays(np.random.default_rng(3))
  tokens_test.write(tmp_path, values)
  page.goto(address(viewer(tmp_path), 'tokens', line=1))
  page.get_by_text('All numbers').click()
  table = page.locator('table.numbers')
  for name in ('advantages', 'old_logprobs', 'last_logprobs', 'entropy'):
    cells = table.locator(f'td[data-column={name}]').all_text_contents()
    read = np.array([np.float32(x) for x in cells])
    np.testing.assert_array_equal(read, values[name][1, : tokens_test.LENGTH])
  # On the token under the pointer, too.
  page.locator('.flow [data-index="4"]').hover()
  hovered = page.locator('.values dd[data-column=advantages]').text_content()
  assert np.float32(hovered) == values['advantages'][1, 4]
  page.locator('.tokens-flow').focus()
  page.keyboard.press('ArrowRight')
  chosen = page.locator('.values dd[data-column=entropy]').text_content()
  assert np.float32(chosen) == values['entropy'][1, 5]
  mask = [
      'on' in x.get_attribute('class').split()
      for x in page.locator('.flow [data-index]').all()
  ]
  assert mask == list(runs.episode().completion_mask)
  page.select_option('#color', 'ratio')
  assert 'color=ratio' in page.url
  colored = page.locator('.flow .on.up, .flow .on.down')
  assert colored.count() == sum(mask)
  page.get_by_role('link', name='train-0-0-0').first.click()
  page.get_by_text('row 1, from column 0').wait_for()
  page.goto(page.url.replace('line=0', 'line=3'))
  page.get_by_role('heading', name='train-0-1-3').wait_for()
  assert page.locator('.place').count() == 0  # was in no update


def test_a_group_is_aligned_and_its_first_difference_marked(
    tmp_path, viewer, page
):
  same = [runs.turn(i) for i in range(3)]
  other = [same[0], runs.turn(1, action='fly', reward=1.0)]
  members = [
      runs.episode('train-0-0-0', made=tuple(same)),
      runs.episode('train-0-0-1', made=tuple(other), success=True),
      runs.episode('train-0-1-0', made=tuple(same)),  # another visit
  ]
  runs.write(tmp_path, episodes=members)
  page.goto(address(viewer(tmp_path), 'group', line=1))
  page.get_by_role('heading', name='Group of 2').wait_for()
  assert page.locator('.aligned thead a').count() == 4
  parted = page.locator('.aligned tr.parted')
  assert parted.locator('.act').all_text_contents() == ['go 1', 'fly']
  assert page.locator('.detail h2').text_content() == 'Turn 2'
  page.get_by_role('button', name='Turn 3').click()
  page.locator('.detail h2', has_text='Turn 3').wait_for()
  assert page.locator('.column').count() == 1


def test_an_exported_group_opens_from_a_file(tmp_path, viewer, page):
  values = tokens_test.arrays(np.random.default_rng(4))
  tokens_test.write(tmp_path, values)
  page.goto(address(viewer(tmp_path), 'group'))
  with page.expect_download() as download:
    page.get_by_role('link', name='HTML').click()
  file = tmp_path / 'group.html'
  download.value.save_as(file)
  assert file.stat().st_size < 500_000
  page.goto(file.as_uri())
  page.get_by_role('heading', name='Group of 3').wait_for()
  page.locator('.episode', has_text='train-0-0-1').locator(
      'summary'
  ).first.click()
  episode = page.locator('.episode', has_text='train-0-0-1')
  episode.locator('summary', has_text='Tokens').click()
  episode.locator('.flow [data-index="4"]').hover()
  shown = episode.locator('.values dd[data-column=advantages]').text_content()
  assert np.float32(shown) == values['advantages'][1, 4]


def test_an_expert_plays_live_and_the_session_is_in_the_address(
    tmp_path, viewer, page
):
  runs.write(tmp_path)
  page.goto(viewer(tmp_path) + '#/play?env=textcraft&task=120')
  page.get_by_role('button', name='Begin').click()
  page.locator('#who').wait_for(timeout=60_000)
  page.fill('#action', 'inventory')
  page.keyboard.press('Enter')
  page.get_by_text('You are not carrying anything').wait_for()
  page.get_by_role('button', name='Let it go on').click()
  page.get_by_text('terminated, success').wait_for()
  page.reload()
  page.get_by_text('terminated, success').wait_for()
  page.get_by_role('button', name='Branch before this turn').nth(1).click()
  page.get_by_text('1 turns, return 0; goes on').wait_for()
  page.get_by_role('button', name='Act', exact=True).click()
  page.get_by_text('2 turns, return 0; goes on').wait_for()


def test_a_policy_that_talks_otherwise_here_is_told_of(tmp_path, viewer, page):
  runs.write(tmp_path)
  folder = tmp_path / 'run'
  (folder / 'checkpoints' / '1').mkdir(parents=True)
  agent = {'context': {'kind': 'window'}}
  (folder / 'config.json').write_text(
      json.dumps({'mode': 'train', 'agent': agent})
  )
  page.goto(viewer(tmp_path) + '#/play?env=textcraft&task=120')
  page.get_by_role('button', name='Begin').click()
  page.locator('#who').wait_for(timeout=60_000)
  told = page.get_by_text('agent.context.kind=window')
  assert not told.count()
  page.select_option('#who', label='run run at 1')
  told.wait_for()
  page.select_option('#who', label='expert')
  told.wait_for(state='detached')


def test_a_checkpoint_plays_live_with_its_likeliest_tokens(
    tmp_path, viewer, page, monkeypatch
):
  with tarfile.open(ARCHIVE) as archive:
    archive.extractall(tmp_path, filter='data')
  monkeypatch.chdir(tmp_path)  # the run names its base by a relative path
  page.goto(viewer(tmp_path) + '#/play')
  page.select_option('#run', 'run')
  page.get_by_role('button', name='Begin').click()
  page.locator('#who').wait_for(timeout=60_000)
  page.select_option('#who', label='run run at 2')
  page.get_by_role('button', name='Let it act once').click()
  page.locator('.candidates table').first.wait_for(timeout=120_000)
  rows = page.locator('.candidates table').first.locator('tbody tr')
  assert rows.count() == 5
