"""A taskset of verifiers: sums, a tool, a rubric that fails for one of them.

It is imported by a Python of its own, see ../verifiers_test.py.
"""

import verifiers.v1 as vf

__all__ = ['Sums']


class Data(vf.TaskData):
  answer: str


class Calculator(vf.Toolset[vf.SharedToolsetConfig, vf.State]):

  @vf.tool
  def add(self, a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


class Sum(vf.Task[Data, vf.State, vf.TaskConfig]):

  @vf.reward
  async def right(self, task, trace) -> float:
    if task.answer == '7':
      raise ValueError('this sum has no rubric')
    return float(trace.last_reply == task.answer)

  @vf.reward(weight=0.5)
  async def short(self, task, trace) -> float:
    return float(len(trace.last_reply) < 3)


class Sums(vf.Taskset[Sum, vf.TasksetConfig]):

  def load(self):
    for i in range(12):
      data = Data(
          prompt=f'{i} + 7?', answer=str(i + 7), system_prompt='Use the tool.'
      )
      yield Sum(data, self.config.task)

  @classmethod
  def toolsets(cls, config):
    return [Calculator(vf.SharedToolsetConfig())]


if __name__ == '__main__':
  Calculator.run()
