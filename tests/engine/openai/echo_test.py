"""Tests for `echo` on /v1/completions: prompts that are scored."""

import itertools

import pytest

from tests.engine.talking import WORDS, Letters, once

openai = pytest.importorskip('openai', reason='needs the openai package')

TEXT = 'the cat sat on'
IDS = WORDS.encode(TEXT)


@pytest.fixture
def complete(client):
  """Asks with `echo` for greedy completions; gives the choices."""

  def ask(**changes):
    body = dict(model='p', prompt=TEXT, temperature=0, max_tokens=3, echo=True)
    return client.completions.create(**body | changes).choices

  return ask


@pytest.fixture
def scored(words_engine):
  """What /generate says of a prompt and its greedy continuation."""

  def ask(ids, tops=0, new=3):
    _, reply = once(
        words_engine,
        'generate',
        {
            'input_ids': ids,
            'sampling_params': {'temperature': 0, 'max_new_tokens': new},
            'return_logprob': True,
            'logprob_start_len': 0,
            'top_logprobs_num': tops,
            'return_text_in_logprobs': True,
        },
    )
    return reply

  return ask


def triples(reply, name='token_logprobs'):
  meta = reply['meta_info']
  return [*meta[f'input_{name}'], *meta[f'output_{name}']]


@pytest.mark.parametrize('prompt', [TEXT, IDS])
def test_a_prompt_precedes_its_completion(complete, scored, prompt):
  (choice,) = complete(prompt=prompt)
  assert choice.text == TEXT + scored(IDS)['text']
  assert choice.logprobs is None
  assert choice.finish_reason == 'length'


@pytest.mark.parametrize('prompt', [TEXT, IDS])
@pytest.mark.parametrize('new', [0, 1, 3])
def test_prompts_are_scored(complete, scored, prompt, new):
  (choice,) = complete(prompt=prompt, max_tokens=new, logprobs=2)
  reply = scored(IDS, tops=2, new=new)
  table = choice.logprobs
  assert len(table.tokens) == len(IDS) + new
  assert ''.join(table.tokens) == choice.text
  expected = triples(reply)
  assert table.tokens == [text for _, _, text in expected]
  assert table.token_logprobs[0] is None and table.top_logprobs[0] is None
  assert table.token_logprobs[1:] == pytest.approx(
      [logprob for logprob, _, _ in expected[1:]], abs=1e-5
  )
  ends = list(itertools.accumulate(map(len, table.tokens)))
  assert table.text_offset == [0, *ends[:-1]]
  for row, known in zip(
      table.top_logprobs[1:], triples(reply, 'top_logprobs')[1:], strict=True
  ):
    largest = {}
    for logprob, _, text in known:
      largest.setdefault(text, logprob)
    assert row == pytest.approx(largest, abs=1e-5)


def test_scores_are_those_of_a_full_forward(make_engine, model):
  engine = make_engine(Letters())
  prompt = [5, 9, 33, 60, 2, 71]
  with openai.OpenAI(
      base_url=f'{engine.url}/v1', api_key='any', max_retries=0
  ) as client:
    (choice,) = client.completions.create(
        model='p', prompt=prompt, max_tokens=0, echo=True, logprobs=1
    ).choices
  rows = model.logprobs(prompt)
  assert choice.logprobs.token_logprobs[1:] == pytest.approx(
      [rows[i, token] for i, token in enumerate(prompt[1:])], abs=1e-4
  )
  assert [max(top.values()) for top in choice.logprobs.top_logprobs[1:]] == (
      pytest.approx(rows[:-1].max(axis=-1), abs=1e-4)
  )


def test_a_greedy_token_has_exactly_the_largest_number(complete):
  # Harnesses compare the two with `==` to say whether a text is greedy.
  (first,) = complete(max_tokens=12)
  (again,) = complete(
      prompt=IDS + WORDS.encode(first.text)[len(IDS) :],
      max_tokens=0,
      logprobs=1,
  )
  table = again.logprobs
  pairs = list(zip(table.token_logprobs, table.top_logprobs, strict=True))
  assert any(logprob == max(top.values()) for logprob, top in pairs[len(IDS) :])
  for (logprob, top), token in zip(pairs[1:], table.tokens[1:], strict=True):
    assert logprob <= max(top.values())
    if token in top and '\ufffd' not in token:
      assert logprob == top[token]


def test_scores_without_alternatives(complete, scored):
  (choice,) = complete(logprobs=0)
  assert choice.logprobs.top_logprobs is None
  assert choice.logprobs.token_logprobs[1:] == pytest.approx(
      [logprob for logprob, _, _ in triples(scored(IDS))[1:]], abs=1e-5
  )


def test_prompts_of_a_batch_have_scores_of_their_own(complete):
  other = 'a mat'
  for prompts in ([TEXT, other], [IDS, WORDS.encode(other)]):
    many = complete(prompt=prompts, n=2, logprobs=1)
    assert [choice.index for choice in many] == [0, 1, 2, 3]
    for choice, prompt in zip(many, (TEXT, TEXT, other, other), strict=True):
      (alone,) = complete(prompt=prompt, logprobs=1)
      assert choice.text == alone.text and choice.text.startswith(prompt)
      assert choice.logprobs.tokens == alone.logprobs.tokens
      assert choice.logprobs.token_logprobs[1:] == pytest.approx(
          alone.logprobs.token_logprobs[1:], abs=1e-5
      )


def test_a_stream_begins_with_the_prompt(complete, client, slow_decode):
  del slow_decode
  ask = dict(max_tokens=40, logprobs=2)
  (whole,) = complete(**ask)
  chunks = list(
      client.completions.create(
          model='p', prompt=TEXT, temperature=0, echo=True, stream=True, **ask
      )
  )
  assert len(chunks) > 1
  choices = [chunk.choices[0] for chunk in chunks]
  assert choices[0].text.startswith(TEXT)
  assert ''.join(choice.text for choice in choices) == whole.text
  tables = [choice.logprobs for choice in choices]
  for name in ('tokens', 'text_offset', 'token_logprobs', 'top_logprobs'):
    streamed = [x for table in tables for x in getattr(table, name) or ()]
    expected = getattr(whole.logprobs, name)
    assert len(streamed) == len(expected)
    if name in ('tokens', 'text_offset'):
      assert streamed == expected


def test_offsets_are_those_of_characters(complete):
  # The last letters are no merges of the tokenizer: two to four ids each.
  text = 'na\u00efve \N{SNOWMAN} the \N{CAT FACE}\u00df cat'
  (choice,) = complete(prompt=text, max_tokens=0, logprobs=0)
  ids = WORDS.encode(text)
  table = choice.logprobs
  assert len(table.text_offset) == len(ids) > len(text.split())
  assert any('\ufffd' in token for token in table.tokens)
  assert table.text_offset == sorted(table.text_offset)
  for token, offset in zip(table.tokens, table.text_offset, strict=True):
    whole = token.rstrip('\ufffd')
    if '\ufffd' not in whole:
      assert text[offset:].startswith(whole)
  assert text[table.text_offset[-1] :] == table.tokens[-1]


def test_control_tokens_are_scored(complete):
  end = WORDS.eos_ids[0]
  text = WORDS.decode([end], skip_special=False)
  (choice,) = complete(prompt=f'a{text}b', max_tokens=0, logprobs=1)
  assert choice.text == f'a{text}b'
  assert choice.logprobs.tokens == ['a', text, 'b']
  (choice,) = complete(prompt=[*WORDS.encode('a'), end], max_tokens=0)
  assert choice.text == 'a'  # as of completions: ids of control are left out


@pytest.mark.parametrize(
    'change, reason',
    [
        ({'max_tokens': 0, 'echo': False}, 'max_tokens must be a positive'),
        ({'max_tokens': -1}, 'max_tokens must be a number, at least 0'),
        ({'logprobs': 129}, r'logprobs must be a number in \[0, 128\]'),
        ({'prompt': []}, 'prompt must be'),
        ({'echo': 'yes'}, 'echo must be a boolean'),
    ],
)
def test_what_cannot_be_echoed_is_a_bad_request(complete, change, reason):
  with pytest.raises(openai.BadRequestError, match=reason):
    complete(**change)


def test_a_chat_has_no_echo(client):
  with pytest.raises(openai.BadRequestError, match='/v1/completions'):
    client.chat.completions.create(
        model='p',
        messages=[{'role': 'user', 'content': 'a'}],
        extra_body={'echo': True},
    )
