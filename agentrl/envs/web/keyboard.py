"""Typing into fields, key combinations and the clipboard."""

from playwright.async_api import Page

from agentrl.envs.web.commands import Refused

_KEYED = 200  # characters of a text that are typed key by key
_KEYS = {
    'ctrl': 'Control', 'cmd': 'Control', 'command': 'Control', 'meta': 'Control',
    'control': 'Control', 'alt': 'Alt', 'shift': 'Shift', 'enter': 'Enter',
    'return': 'Enter', 'esc': 'Escape', 'escape': 'Escape', 'tab': 'Tab',
    'space': 'Space', 'backspace': 'Backspace', 'delete': 'Delete',
    'del': 'Delete', 'home': 'Home', 'end': 'End', 'insert': 'Insert',
    'pageup': 'PageUp', 'pagedown': 'PageDown', 'page_up': 'PageUp',
    'page_down': 'PageDown', 'arrowup': 'ArrowUp', 'arrowdown': 'ArrowDown',
    'arrowleft': 'ArrowLeft', 'arrowright': 'ArrowRight', 'up': 'ArrowUp',
    'down': 'ArrowDown', 'left': 'ArrowLeft', 'right': 'ArrowRight',
    **{f'f{k}': f'F{k}' for k in range(1, 13)},
}  # fmt: skip
_MODIFIERS = ('Control', 'Shift', 'Alt')
# Chromium has one clipboard for all episodes; each has its own here.
CLIPBOARD = {
    'Control+c': 'copy', 'Control+Insert': 'copy',
    'Control+x': 'cut', 'Shift+Delete': 'cut',
    'Control+v': 'paste', 'Shift+Insert': 'paste', 'Control+Shift+v': 'paste',
}  # fmt: skip

# The focused element may be in a frame or a shadow tree.
COPY = """(cut) => {
  let d = document, e = d.activeElement;
  for (let inner = e; inner;) {
    e = inner;
    inner = null;
    if (e.shadowRoot) inner = e.shadowRoot.activeElement;
    else if (e.contentDocument) {
      d = e.contentDocument;
      inner = d.activeElement;
    }
  }
  const text = e && typeof e.selectionStart === 'number' ?
      e.value.slice(e.selectionStart, e.selectionEnd) : String(d.getSelection());
  if (text && cut) d.execCommand('delete');
  return text;
}"""


async def replace(page: Page, text: str, *, enter: bool) -> None:
  """Types in place of what the focused field holds."""
  keyboard = page.keyboard
  await keyboard.press('Control+a')
  if text:
    # Pages listen to keys; of a long text, to the last ones.
    head = text[:-_KEYED] if len(text) > _KEYED else ''
    if head:
      await keyboard.insert_text(head)
    await keyboard.type(text[len(head) :])
  else:
    await keyboard.press('Delete')
  if enter:
    await keyboard.press('Enter')


def read_keys(text: str) -> str:
  """Keys of a press command as Playwright names them, `Control+Shift+a`.

  Raises:
    Refused: one is unknown. Playwright would say so with the others held down.
  """
  if text == '+':  # the key itself
    held, last = [], '+'
  elif text.endswith('++'):
    held, last = text[:-2].split('+'), '+'
  else:
    *held, last = (x.strip() for x in text.split('+'))
  held = [_KEYS.get(x.lower(), '') for x in held]
  last = _KEYS.get(last.lower(), last)
  if 'Control' in held and len(last) == 1:
    last = last.lower()
  plain = len(last) == 1 and last.isascii() and last.isprintable()
  if not set(held) <= {*_MODIFIERS} or not (plain or last in _KEYS.values()):
    raise Refused(
        f'{text[:80]!r} names no keys; press needs some as in press [Enter] or'
        ' press [ctrl+a].'
    )
  return '+'.join([*(x for x in _MODIFIERS if x in held), last])
