r"""A table: which public intent templates have a counterpart on our sites.

python -m experiments.2026-11-webarena.counterparts \
    > experiments/2026-11-webarena/counterparts.md
"""

from collections import Counter
from collections.abc import Iterator

from agentrl.envs.webarena.public import tasks
from agentrl.sites import table as own

_HEAD = """# Intent templates of the public set and their counterparts

Made by `python -m experiments.2026-11-webarena.counterparts`.
"""
DOMAINS = ('shopping', 'shopping_admin', 'reddit', 'gitlab')


def table() -> Iterator[tuple[int, str, int, tuple[str, ...]]]:
  """Template id, its sites, number of its tasks, and our templates for it.

  Only templates whose sites are all of DOMAINS.

  Raises:
    EnvError: the wheel with the public tasks is missing.
  """
  counts: Counter[int] = Counter()
  sites: dict[int, str] = {}
  for task in tasks.load('raw').values():
    if set(task.sites) <= set(DOMAINS):
      counts[task.template_id] += 1
      sites.setdefault(task.template_id, ' and '.join(task.sites))
  for template_id in sorted(counts):
    names = tuple(
        name
        for name, template in own.TEMPLATES.items()
        if template_id in template.public
    )
    yield template_id, sites[template_id], counts[template_id], names


def main() -> None:
  """Prints the file: the table, and the counts by sites."""
  rows = list(table())
  print(_HEAD)
  print('| template | sites | tasks | counterparts |\n|---|---|---|---|')
  for template_id, sites, count, names in rows:
    print(f'| {template_id} | {sites} | {count} | {", ".join(names) or "-"} |')
  print('\n| sites | templates | with a counterpart |\n|---|---|---|')
  for sites in dict.fromkeys(row[1] for row in rows):
    here = [bool(row[3]) for row in rows if row[1] == sites]
    print(f'| {sites} | {len(here)} | {sum(here)} |')


if __name__ == '__main__':
  main()
