"""A page of Playwright's, without a browser."""


class Page:
  """A page that has loaded: its HTML, and what its scripts give.

  `scripts` maps expressions to values, or to errors that they throw.
  """

  url = 'http://forum.test/f/books/7/title'

  def __init__(self, text='', closed=False, **scripts):
    self.text, self.closed, self.scripts = text, closed, scripts
    self.context = None

  async def content(self):
    if isinstance(self.text, Exception):
      raise self.text
    return self.text

  async def evaluate(self, script, *args):
    del args
    value = self.scripts[script.removeprefix('() => ')]
    if isinstance(value, Exception):
      raise value
    return value

  def is_closed(self):
    return self.closed
