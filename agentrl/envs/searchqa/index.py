"""The embedded search engine: BM25 over the corpus, kept in a cache folder.

tantivy maps the index into memory, so several servers on one machine share it.
One writing thread makes one segment, and equal scores go by the order of the
corpus: ranks are the same everywhere.
"""

import importlib.metadata
import importlib.util
import pathlib
from collections.abc import Sequence
from typing import Any

import rich.console
import rich.progress

from agentrl import shipped
from agentrl.envs.searchqa import dataset
from agentrl.envs.searchqa.records import Passage
from agentrl.errors import EnvError
from agentrl.runtime import cache

VERSION = '0.27.0'  # of tantivy; another may rank differently
_MAX_TERMS = 32  # of a query; more would only make it slow
_HEAP_BYTES = 512_000_000  # more than the corpus fills, hence one segment

# Searched apart: a title is short, so its words count for more.
_FIELDS = ('title', 'text')

# Words that distinguish no passages. Short ones are kept: "in" may be
# indium, or India's domain.
_STOP = (
    'a an and are did does for from has have how of that the their this was'
    ' were what when where which who whom whose with'
).split()


class Index:
  """Passages by relevance. Searching from several threads is safe.

  Args:
    folder: where `build` wrote.

  Raises:
    EnvError: it cannot be read.
  """

  def __init__(self, folder: pathlib.Path):
    self._library = library = _tantivy()
    self._analyser = _analyser(library)
    try:
      index = library.Index.open(str(folder))
    except ValueError as error:
      raise EnvError(
          f'The search index in {folder} is damaged; remove that folder, and it'
          f' is built again: {error}'
      ) from error
    index.config_reader(reload_policy='manual')  # it is complete
    self._schema = index.schema
    self._searcher = index.searcher()

  def __len__(self) -> int:
    return self._searcher.num_docs

  def search(self, query: str, topk: int) -> list[Passage]:
    """The best passages for `query`; none that shares no word with it."""
    terms = list(dict.fromkeys(self._analyser.analyze(query)))[:_MAX_TERMS]
    if not terms:
      return []
    library = self._library
    any_term = library.Query.boolean_query([
        (
            library.Occur.Should,
            library.Query.term_query(
                self._schema, field, term, index_option='freq'
            ),
        )
        for term in terms
        for field in _FIELDS
    ])
    hits = self._searcher.search(any_term, limit=topk, count=False).hits
    return [self._passage(address) for _, address in hits]

  def _passage(self, address: Any) -> Passage:
    stored = bytes(self._searcher.doc(address).get_first('passage'))
    return Passage(*stored.decode().split('\n', 1))


def load() -> Index:
  """The index of the whole corpus; the first call on a machine builds it.

  Raises:
    EnvError: a package is missing, or the cache folder cannot be written.
  """
  _tantivy()
  write = lambda folder: build(dataset.load_passages(), folder)
  return Index(cache.folder('searchqa', dataset.key(__file__), write))


def build(passages: Sequence[Passage], folder: pathlib.Path) -> None:
  """Writes the index of `passages` to `folder`, with a bar on stderr."""
  library = _tantivy()
  schema = library.SchemaBuilder().add_bytes_field('passage', stored=True)
  for field in _FIELDS:
    schema.add_text_field(field, tokenizer_name='words', index_option='freq')
  index = library.Index(schema.build(), path=str(folder))
  index.register_tokenizer('words', _analyser(library))
  writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
  console = rich.console.Console(stderr=True)
  with rich.progress.Progress(console=console) as bar:
    for passage in bar.track(passages, description='indexing passages'):
      document = library.Document()
      document.add_text('title', passage.title)
      document.add_text('text', passage.text)
      stored = f'{passage.title}\n{passage.text}'
      document.add_bytes('passage', stored.encode())
      writer.add_document(document)
  writer.commit()
  writer.wait_merging_threads()


def _analyser(library: Any) -> Any:
  """Words without case, accents and endings."""
  filters = library.Filter
  return (
      library.TextAnalyzerBuilder(library.Tokenizer.simple())
      .filter(filters.remove_long(40))
      .filter(filters.lowercase())
      .filter(filters.ascii_fold())
      .filter(filters.custom_stopword(_STOP))
      .filter(filters.stemmer('english'))
      .build()
  )


def _tantivy() -> Any:
  """The library, imported only where it is needed."""
  is_installed = importlib.util.find_spec('tantivy') is not None
  version = importlib.metadata.version('tantivy') if is_installed else 'none'
  if version != VERSION:
    raise EnvError(
        f'SearchQA needs tantivy {VERSION}, found {version}:'
        f' pip install -r {shipped.requirements("envs")}'
    )
  import tantivy

  return tantivy
