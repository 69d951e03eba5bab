"""Products and collectives of a compiled program, loops counted.

`cost_analysis` of a compiled program counts the body of a loop once, and layers
and chunks of the vocabulary are loops here. So the optimized HLO text is read
instead: every instruction counts as often as the loops around it turn.
"""

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

COLLECTIVES = (
    'all-gather',
    'all-reduce',
    'reduce-scatter',
    'all-to-all',
    'collective-permute',
)

# `%name = type opcode(operands), attributes`; a tuple type has spaces, but no
# word before a parenthesis.
_INSTRUCTION = re.compile(
    r'^\s+(?:ROOT )?%([\w.\-]+) = (.*?) ([a-z][a-z0-9\-]*)\((.*)$'
)
_COMPUTATION = re.compile(r'^(ENTRY )?%([\w.\-]+) .*\{$')
_ARRAY = re.compile(r'([a-z]+)(\d*)\w*\[([\d,]*)\]')
_CALLED = re.compile(
    r'(?:calls|body|to_apply|branch_computations)=(\{[^}]*\}|%[\w.\-]+)'
)
_NAME = re.compile(r'%([\w.\-]+)')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


@dataclasses.dataclass(frozen=True)
class Collective:
  """Collectives of one kind among groups of one size."""

  kind: str  # one of COLLECTIVES
  devices: int  # of a group
  count: int
  # On one device, the larger of operands and results; all `count` together.
  bytes: int


class Costs(NamedTuple):
  """The work of one device in one run of a program."""

  flops: int  # of matrix products, 2 for each multiply and add
  collectives: tuple[Collective, ...]  # the heaviest first


class _Instruction(NamedTuple):
  name: str
  type: str
  opcode: str
  operands: tuple[str, ...]
  rest: str  # attributes


def work(text: str) -> Costs:
  """Reads `jax.stages.Compiled.as_text()`.

  Element-wise work is not counted: it is bound by memory, not by arithmetic.

  Args:
    text: of the program that each device runs.

  Raises:
    ValueError: a loop whose number of turns the compiler does not know has
      products or collectives in it.
  """
  computations, entry = _parse(text)
  counts: dict[str, dict] = {}

  def count(name: str) -> dict:
    """The work of a computation: flops by None, (count, bytes) by (kind, devices)."""
    if name in counts:
      return counts[name]
    total: dict = {}
    instructions = computations[name]
    types = {i.name: i.type for i in instructions}
    for instruction in instructions:
      own = _own(instruction, types, text)
      for called in _called(instruction):
        own = _add(own, count(called))
      if instruction.opcode == 'while' and own:
        own = _times(own, _trips(instruction))
      total = _add(total, own)
    counts[name] = total
    return total

  total = count(entry)
  flops = total.pop(None, (0,))[0]
  collectives = [Collective(*key, *value) for key, value in total.items()]
  collectives.sort(key=lambda c: -c.bytes)
  return Costs(flops, tuple(collectives))


def _parse(text: str) -> tuple[dict[str, list[_Instruction]], str]:
  """Instructions by computation, and the name of the first to run."""
  computations: dict[str, list[_Instruction]] = {}
  entry, current = '', None
  for line in text.splitlines():
    if header := _COMPUTATION.match(line):
      current = computations.setdefault(header[2], [])
      entry = header[2] if header[1] else entry
    elif current is not None and (match := _INSTRUCTION.match(line)):
      name, kind, opcode, rest = match.groups()
      operands, _, attributes = rest.partition(')')
      names = tuple(_NAME.findall(operands))
      current.append(_Instruction(name, kind, opcode, names, attributes))
  return computations, entry


def _called(instruction: _Instruction) -> Iterator[str]:
  for names in _CALLED.findall(instruction.rest):
    yield from _NAME.findall(names)


def _trips(loop: _Instruction) -> int:
  match = _TRIPS.search(loop.rest)
  if not match:
    raise ValueError(
        f'The loop {loop.name} turns an unknown number of times: its work'
        ' cannot be counted.'
    )
  return int(match[1])


def _own(instruction: _Instruction, types: dict[str, str], text: str) -> dict:
  """The work of an instruction alone."""
  opcode = instruction.opcode.removesuffix('-start')
  if opcode == 'dot':
    (lhs,) = _arrays(types[instruction.operands[0]])
    (out,) = _arrays(instruction.type)
    axes = re.search(r'lhs_contracting_dims=\{([\d,]*)\}', instruction.rest)
    inner = math.prod(lhs[1][i] for i in _ints(axes[1])) if axes else 1
    return {None: (2 * math.prod(out[1]) * inner,)}
  if opcode in COLLECTIVES:
    operands = sum(_bytes(types[name]) for name in instruction.operands)
    size = max(operands, _bytes(instruction.type))
    return {(opcode, _group(instruction.rest, text)): (1, size)}
  return {}


def _group(attributes: str, text: str) -> int:
  """Devices that exchange with one another, in any of the ways to write it."""
  if 'source_target_pairs=' in attributes:
    return 2
  # mesh['a'=32,'b'=8] {'a'}; an axis may be cut: 'a':(1)4.
  if match := re.search(
      r'replica_groups=mesh\[(.*?)\][^{]*\{(.*?)\}', attributes
  ):
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
    used = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", match[2])
    return math.prod(int(part or sizes[axis]) for axis, part in used)
  # [groups,devices]<=[...]
  if match := re.search(r'replica_groups=\[\d+,(\d+)\]', attributes):
    return int(match[1])
  if match := re.search(r'replica_groups=\{\{([\d,]*)\}', attributes):
    return len(_ints(match[1]))
  match = re.search(r'num_partitions=(\d+)', text)
  assert match is not None  # a program of several devices says how many
  return int(match[1])  # all of them


def _arrays(kind: str) -> list[tuple[int, list[int]]]:
  """Bits of an element, and shape, of each array of a type."""
  return [
      (8 if name == 'pred' else int(bits or 0), _ints(shape))
      for name, bits, shape in _ARRAY.findall(kind)
  ]


def _bytes(kind: str) -> int:
  return sum(bits * math.prod(shape) // 8 for bits, shape in _arrays(kind))


def _ints(text: str) -> list[int]:
  return [int(item) for item in text.split(',') if item]


def _add(one: dict, other: dict) -> dict:
  out = dict(one)
  for key, values in other.items():
    old = out.get(key, (0,) * len(values))
    out[key] = tuple(a + b for a, b in zip(old, values, strict=True))
  return out


def _times(counts: dict, factor: int) -> dict:
  return {
      key: tuple(factor * value for value in values)
      for key, values in counts.items()
  }
