"""Chat templates in the manner of model families: read, or refused by name.

Written anew from what the templates of these models are documented to do.
"""

import copy

import pytest

from agentrl.errors import ChatTemplateError
from agentrl.text import harmony_template, tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.types import Message

SPECIALS = (
    *(tokenizer_lib.START, tokenizer_lib.END, tokenizer_lib.PAD),
    *('[INST]', '[/INST]', '[SYSTEM_PROMPT]', '[/SYSTEM_PROMPT]', '<eos>'),
    *('<|system|>', '<|user|>', '<|assistant|>', '<|end|>', '<|sep|>', '<bos>'),
    *('<|turn>', '<turn|>', '<|channel>', '<channel|>'),
)
# Mistral's third: the system message moves to the last message of the user.
MISTRAL_V3 = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content"
    ' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{%'
    " endif %}<bos>{% for m in rest %}{% if m.role == 'user' %}[INST] {% if"
    " loop.last and system %}{{ system + '\n\n' }}{% endif %}{{ m.content +"
    " '[/INST]' }}{% else %}{{ ' ' + m.content + '<eos>' }}{% endif %}{%"
    ' endfor %}'
)
# Mistral's seventh: it has a place of its own.
MISTRAL_V7 = (
    '<bos>{% for m in messages %}'
    "{% if m.role == 'system' %}"
    "{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{% elif m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{% else %}{{ m.content + '<eos>' }}{% endif %}{% endfor %}"
)
# A control token for each role. Phi-3 ends messages, Granite and OLMo 2 those of
# the assistant alone (by the token that ends documents), Phi-4 has a token
# between role and content.
PHI3 = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n'"
    " }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}"
    '{% else %}<eos>{% endif %}'
)
PHI4 = (
    "{% for m in messages %}{{ '<bos>' + m.role + '<|sep|>' + m.content +"
    " '<|end|>' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<bos>assistant<|sep|>' }}{% endif %}"
)
OLMO2 = (
    "<bos>{% for m in messages %}{% if m.role == 'assistant' %}"
    "{{ '<|assistant|>\n' + m.content + '<eos>' }}"
    "{% if not loop.last %}{{ '\n' }}{% endif %}"
    "{% else %}{{ '<|' + m.role + '|>\n' + m.content + '\n' }}{% endif %}"
    "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}"
    '{% endif %}{% endfor %}'
)
GRANITE = (
    "{% if messages[0].role != 'system' %}"
    "{{ '<bos>system<|sep|>You help.<eos>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<bos>' + m.role + '<|sep|>' + m.content +"
    " '<eos>\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<bos>assistant<|sep|>' }}{% endif %}"
)
SEED_OSS = (
    "{% for m in messages %}{{ '<bos>' + m.role + '\n' + m.content + '<eos>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<bos>assistant\n' }}"
    '{% endif %}'
)
# GLM's messages have no end: the role of the next one is a completion's.
GLM4 = (
    "<bos>{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}"
    '{% endif %}'
)
# HunYuan's leaves the reasoning of earlier turns out.
HUNYUAN = (
    "<bos>{% for m in messages %}{% if m.role == 'assistant' %}"
    "{{ m.content.split('</think>')[-1] + '<|end|>' }}"
    "{% elif m.role == 'user' %}{{ '<|user|>' + m.content + '<|assistant|>' }}"
    '{% else %}{{ m.content }}{% endif %}{% endfor %}'
)
# Gemma 4's of the small models begins answers plainly, the other closes a thought
# before each, which earlier turns do not have.
GEMMA4 = (
    "<bos>{% for m in messages %}{{ '<|turn>' + ('model' if m.role =="
    " 'assistant' else m.role) + '\n' + (m.content.split('<channel|>')[-1] if"
    " m.role == 'assistant' else m.content) | trim + '<turn|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn>model\n' }}{% endif %}"
)
GEMMA4_LARGE = GEMMA4.replace(
    "'<|turn>model\n' }}", "'<|turn>model\n<|channel>thought\n<channel|>' }}"
)

READ = {
    'gemma4': (
        GEMMA4,
        (
            '<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nhi<turn|>\n'
            '<|turn>model\n'
        ),
        '<turn|>',
        '\n<|turn>user\nok<turn|>\n<|turn>model\n',
    ),
    'mistral, version 7': (
        MISTRAL_V7,
        '<bos>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]hi[/INST]',
        '<eos>',
        '[INST]ok[/INST]',
    ),
    'phi3': (
        PHI3,
        '<|system|>\nBe brief.<|end|>\n<|user|>\nhi<|end|>\n<|assistant|>\n',
        '<|end|>',
        '\n<|user|>\nok<|end|>\n<|assistant|>\n',
    ),
    'phi4': (
        PHI4,
        (
            '<bos>system<|sep|>Be brief.<|end|><bos>user<|sep|>hi<|end|>'
            '<bos>assistant<|sep|>'
        ),
        '<|end|>',
        '<bos>user<|sep|>ok<|end|><bos>assistant<|sep|>',
    ),
    'olmo2': (
        OLMO2,
        '<bos><|system|>\nBe brief.\n<|user|>\nhi\n<|assistant|>\n',
        '<eos>',
        '\n<|user|>\nok\n<|assistant|>\n',
    ),
    'granite': (
        GRANITE,
        (
            '<bos>system<|sep|>Be brief.<eos>\n<bos>user<|sep|>hi<eos>\n'
            '<bos>assistant<|sep|>'
        ),
        '<eos>',
        '\n<bos>user<|sep|>ok<eos>\n<bos>assistant<|sep|>',
    ),
    'seed_oss': (
        SEED_OSS,
        '<bos>system\nBe brief.<eos><bos>user\nhi<eos><bos>assistant\n',
        '<eos>',
        '<bos>user\nok<eos><bos>assistant\n',
    ),
    'glm4': (
        GLM4,
        '<bos><|system|>\nBe brief.<|user|>\nhi<|assistant|>\n',
        '<|user|>',
        '\nok<|assistant|>\n',
    ),
}
REFUSED = {
    'mistral, version 3': MISTRAL_V3,
    'hunyuan_v1_dense': HUNYUAN,
    'gemma4, large': GEMMA4_LARGE,
}


@pytest.fixture(scope='module')
def tok():
  texts = ['You see a red ball.\nAction:\ngo to the red ball\n'] * 30
  return tokenizer_lib.train_bpe(texts, vocab_size=340, specials=SPECIALS)


def with_template(tok, source, **how):
  tok = copy.copy(tok)
  tok.chat_template = source
  return ChatFormat(tok, **how)


@pytest.mark.parametrize('name', READ)
def test_templates_are_read_as_they_render(tok, name):
  source, prompt, end, observation = READ[name]
  chat = with_template(tok, source)
  show = lambda ids: tok.decode(ids, skip_special=False)
  messages = [Message('system', 'Be brief.'), Message('user', 'hi')]
  assert show(chat.prompt(messages)) == prompt
  assert show([chat.end_id]) == end
  assert show(chat.observation('ok', ended=True)) == observation
  assert show(chat.completion('go')).strip() == f'go{end}'


@pytest.mark.parametrize('name', REFUSED)
def test_templates_that_rewrite_are_refused_with_the_way_out(tok, name):
  with pytest.raises(ChatTemplateError, match="template='chatml'"):
    with_template(tok, REFUSED[name])
  assert with_template(tok, REFUSED[name], template='chatml').has_system


# gpt-oss's: a conversation's reasoning and the ends of its answers are rewritten.
HARMONY = (
    "{% for m in messages %}{% if m.role == 'assistant' %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' +"
    " m.content.split('<|message|>')[-1] }}"
    "{{ '<|return|>' if loop.last and not add_generation_prompt else '<|end|>'"
    ' }}'
    "{% elif m.role == 'system' %}"
    "{{ '<|start|>developer<|message|># Instructions\n\n' + m.content"
    " + '\n\n<|end|>' }}"
    "{% else %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>'"
    ' }}{% endif %}{% endfor %}'
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)


@pytest.fixture(scope='module')
def harmony_tok():
  return tokenizer_lib.train_bpe(
      ['You see a red ball.\nAction:\ngo to the red ball\n'] * 30,
      vocab_size=340,
      specials=(
          *(tokenizer_lib.START, tokenizer_lib.END, tokenizer_lib.PAD),
          *('<|start|>', '<|message|>', '<|channel|>', '<|end|>', '<|return|>'),
          *('<|call|>', '<|constrain|>'),
      ),
  )


def test_harmony_keeps_what_the_policy_thought(harmony_tok):
  tok = harmony_tok
  chat = with_template(tok, HARMONY, template='harmony', date='2026-12-01')
  show = lambda ids: tok.decode(ids, skip_special=False)
  prompt = chat.prompt([Message('system', 'Be brief.'), Message('user', 'hi')])
  # As openai-harmony 0.0.8 renders the same conversation.
  assert show(prompt) == (
      '<|start|>system<|message|>You are ChatGPT, a large language model'
      ' trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date:'
      ' 2026-12-01\n\nReasoning: medium\n\n# Valid channels: analysis,'
      ' commentary, final. Channel must be included for every message.<|end|>'
      '<|start|>developer<|message|># Instructions\n\nBe brief.<|end|>'
      '<|start|>user<|message|>hi<|end|><|start|>assistant'
  )
  final = '<|channel|>final<|message|>go<|return|>'
  assert show(chat.completion('go')) == final
  following = '<|start|>user<|message|>ok<|end|><|start|>assistant'
  assert show(chat.observation('ok', ended=True)) == following
  assert show(chat.observation('ok', ended=False)) == f'<|return|>{following}'
  ends = {tok.id_to_token(i) for i in chat.stop_ids}
  assert {'<|return|>', '<|call|>'} <= ends and '<|end|>' not in ends
  thought = '<|channel|>analysis<|message|>It is red.<|end|><|start|>assistant'
  read = lambda text: chat.read(tok.encode(text, allow_special=True))
  assert read(final) == 'go'
  assert read(thought + final) == '<think>\nIt is red.\n</think>\n\ngo'
  assert read('<|channel|>analysis<|message|>It') == '<think>\nIt'
  call = (
      ' to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}'
      '<|call|>'
  )
  assert read(thought + call) == '<think>\nIt is red.\n{}\n</think>\n\n'
  # A recorded completion has the thoughts where the policy writes them.
  said = '<think>\nIt is red.\n</think>\n\ngo'
  assert show(chat.completion(said)) == thought + final
  assert show(chat.completion('<think>\nIt', ended=False)) == (
      '<|channel|>analysis<|message|>It'
  )
  messages = [Message('user', 'hi'), Message('assistant', said)]
  assert show(chat.prompt([*messages, Message('user', 'ok')])).endswith(
      f'hi<|end|><|start|>assistant{thought}{final}{following}'
  )


WEATHER = {
    'type': 'function',
    'function': {
        'name': 'weather',
        'description': 'Gets the weather.\nOf today.',
        'parameters': {
            'type': 'object',
            'properties': {
                'places': {
                    'type': 'array',
                    'items': {'type': 'string'},
                    'description': 'Names of towns.',
                },
                'unit': {'type': 'string', 'enum': ['c', 'f'], 'default': 'c'},
                'days': {'type': 'integer', 'default': 1},
                'note': {'type': ['string', 'null'], 'title': 'Note'},
                'area': {
                    'type': 'object',
                    'properties': {
                        'wide': {'type': 'boolean', 'default': False},
                        'name': {'type': 'string', 'nullable': True},
                    },
                    'required': ['name'],
                },
                'rest': {'anyOf': [{'type': 'string'}, {'type': 'null'}]},
                'like': {'oneOf': [{'type': 'string'}, {'type': 'integer'}]},
            },
            'required': ['places'],
        },
    },
}
PING = {
    'type': 'function',
    'function': {'name': 'ping', 'description': 'Waits.'},
}
# As openai-harmony 0.0.8 renders them, but for `like`, as gpt-oss's own template.
TOLD = """# Tools

## functions

namespace functions {

// Gets the weather.
// Of today.
type weather = (_: {
// Names of towns.
places: string[],
unit?: "c" | "f", // default: c
days?: number, // default: 1
// Note
//
note?: string | null,
area?: {
    wide?: boolean, // default: false
    name: string | null,
    },
rest?: any,
like?: string | number,
}) => any;

// Waits.
type ping = () => any;

} // namespace functions"""
CALLED = (
    '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>'
    '{"places": ["Rome"]}<|call|>'
)


@pytest.fixture(scope='module')
def harmony_tools(harmony_tok):
  tools = [WEATHER, PING]
  return ChatFormat(
      harmony_tok, template='harmony', date='2026-12-01', tools=tools
  )


def test_harmony_tells_functions_as_openai_harmony_does(
    harmony_tok, harmony_tools
):
  show = lambda *messages: harmony_tok.decode(
      harmony_tools.prompt(messages), skip_special=False
  )
  user = Message('user', 'hi')
  system, developer, *rest = show(Message('system', 'Be brief.'), user).split(
      '<|end|>'
  )
  assert system.endswith(
      'Channel must be included for every message.\nCalls to these tools must'
      " go to the commentary channel: 'functions'."
  )
  start = '<|start|>developer<|message|>'
  assert developer == f'{start}# Instructions\n\nBe brief.\n\n{TOLD}'
  assert rest == ['<|start|>user<|message|>hi', '<|start|>assistant']
  assert show(user).split('<|end|>')[1] == start + TOLD


def test_the_called_function_answers_in_harmony(harmony_tok, harmony_tools):
  tok, chat = harmony_tok, harmony_tools
  show = lambda ids: tok.decode(ids, skip_special=False)
  assert ''.join(chat.call) == CALLED.replace('weather', '').replace(
      '{"places": ["Rome"]}', ''
  )
  ids = chat.completion(CALLED)
  assert show(ids) == CALLED
  assert ids[-1] == tok.token_to_id('<|call|>')
  assert chat.called(ids) == 'weather' and chat.read(ids) == CALLED
  answer = (
      '<|start|>functions.weather to=assistant<|channel|>commentary<|message|>'
      '{"sunny": true}<|end|><|start|>assistant'
  )
  observation = lambda ids: show(
      chat.observation(
          '{"sunny": true}',
          ended=ids[-1] in chat.stop_ids,
          called=chat.called(ids),
      )
  )
  assert observation(ids) == answer
  # The end of a call that was cut is not sampled; nothing else is missing.
  cut = chat.completion(CALLED.removesuffix('"]}<|call|>'), ended=False)
  assert chat.called(cut) == 'weather'
  assert observation(cut) == f'<|call|>{answer}'
  # All of it again in a prompt: after a thought, and words that call nothing.
  thought = '<think>\nWhere?\n</think>\n\n'
  messages = [
      Message('user', 'hi'),
      Message('assistant', thought + CALLED),
      Message('user', '{"sunny": true}'),
      Message('assistant', 'It is.'),
      Message('user', 'ok'),
  ]
  prompt = chat.prompt(messages)
  assert show(prompt).partition('hi<|end|><|start|>assistant')[2] == (
      '<|channel|>analysis<|message|>Where?<|end|><|start|>assistant'
      f'{CALLED}{answer}<|channel|>final<|message|>It is.<|return|>'
      '<|start|>user<|message|>ok<|end|><|start|>assistant'
  )
  # Conversations that come as they are say themselves which are answers.
  roles = ('user', 'assistant', 'tool', 'assistant', 'user')
  as_is = [Message(r, x.content) for r, x in zip(roles, messages, strict=True)]
  assert chat.prompt(as_is, as_is=True) == prompt
  assert chat.prompt([Message('tool', 'hi'), *as_is[1:]], as_is=True) == prompt


@pytest.mark.parametrize(
    'sampled, text, called',
    [
        # Before the channel, as the renderer has it, or without the type.
        (
            (
                ' to=functions.weather<|channel|>commentary <|constrain|>json'
                '<|message|>{"places": ["Rome"]}<|call|>'
            ),
            CALLED,
            'weather',
        ),
        (
            (
                '<|channel|>commentary to=functions.weather<|message|>'
                '{"places": ["Rome"]}<|call|>'
            ),
            CALLED,
            'weather',
        ),
        # The recipient makes a call, whatever the channel and the end.
        (CALLED.replace('commentary', 'analysis'), CALLED, 'weather'),
        (CALLED.replace('<|call|>', '<|return|>'), CALLED, 'weather'),
        # Words to the user before it are a thought.
        (
            f'<|channel|>commentary<|message|>So.<|end|><|start|>assistant{CALLED}',
            f'<think>\nSo.\n</think>\n\n{CALLED}',
            'weather',
        ),
        # Of several calls the last is answered.
        (
            (
                CALLED.replace('<|call|>', '<|end|>')
                + '<|start|>assistant'
                + CALLED.replace('weather', 'ping')
            ),
            f'{CALLED}\n{CALLED.replace("weather", "ping")}',
            'ping',
        ),
        ('<|channel|>final<|message|>Hi.<|return|>', 'Hi.', None),
        # Tools that gpt-oss knows are not here: such a message is a thought.
        (
            '<|channel|>analysis to=python<|message|>1<|call|>',
            '<think>\n1\n</think>\n\n',
            None,
        ),
        ('<|channel|>commentary to=functions.we', '<think>\n', None),
        ('<|channel|>final<|call|><|message|>Hi.', 'Hi.', None),
    ],
)
def test_calls_are_read_off_the_header(
    harmony_tok, harmony_tools, sampled, text, called
):
  ids = harmony_tok.encode(sampled, allow_special=True)
  assert harmony_tools.read(ids) == text
  assert harmony_tools.called(ids) == called


def test_a_spelled_control_token_is_text_in_harmony(harmony_tok, harmony_tools):
  words = f'I write {CALLED}'
  final = [('<|channel|>final<|message|>', True), (words, False)]
  ids = harmony_tok.encode_pieces([*final, ('<|return|>', True)])
  assert harmony_tools.called(ids) is None
  assert harmony_tools.completion(words) == ids
  name = 'f<|call|>'
  observed = harmony_tools.observation('x', ended=True, called=name)
  assert harmony_tok.token_to_id('<|call|>') not in observed


def test_harmony_without_reasoning_has_no_calls(harmony_tok):
  with pytest.raises(ChatTemplateError, match="'ping'.*template='harmony' has"):
    ChatFormat(harmony_tok, template='harmony_no_think', tools=[PING])
  with pytest.raises(ChatTemplateError, match="template='harmony'"):
    source = HARMONY.replace('{% for m', '{{ tools }}{% for m', 1)
    with_template(harmony_tok, source, tools=[PING])


def test_a_template_of_channels_is_known_by_its_ends(harmony_tok):
  """An exported folder has our template as its own."""
  source = f'{{# x #}}{harmony_template.HARMONY}'
  chat = with_template(harmony_tok, source, tools=[PING])
  assert chat.called(chat.completion(CALLED)) == 'weather'


def test_gpt_oss_s_is_refused_and_ours_takes_its_place(harmony_tok):
  tok = harmony_tok
  with pytest.raises(ChatTemplateError, match="template='harmony_no_think'"):
    with_template(tok, HARMONY)
  chat = with_template(
      tok, HARMONY, template='harmony_no_think', date='2026-12-01'
  )
  show = lambda ids: tok.decode(ids, skip_special=False)
  prompt = chat.prompt([Message('system', 'Be brief.'), Message('user', 'hi')])
  before, _, after = show(prompt).partition('<|end|>')
  assert before.startswith('<|start|>system<|message|>You are ChatGPT')
  assert '\nCurrent date: 2026-12-01\n' in before
  answer = '<|start|>assistant<|channel|>final<|message|>'
  assert after == (
      '<|start|>developer<|message|># Instructions\n\nBe brief.<|end|>'
      f'<|start|>user<|message|>hi<|end|>{answer}'
  )
  assert show(chat.completion('go')) == 'go<|return|>'
  following = f'<|start|>user<|message|>ok<|end|>{answer}'
  assert show(chat.observation('ok', ended=True)) == following
