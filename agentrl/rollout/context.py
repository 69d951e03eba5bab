"""Context policies: the part of an episode that the policy still sees.

A long episode outgrows the context. A policy of this kind looks at the turns so
far and says whether the present segment goes on, or how the next one begins.
Each is made of pure functions, so that an episode can be read again from its
record. Whatever an opening repeats is context: its tokens are no loss's
business, since they were sampled, and are trained, in the segment where they
stood first.
"""

from collections.abc import Callable

from agentrl import plugins
from agentrl.errors import ConfigError
from agentrl.rollout.contexts import fold, notes, summary, window
from agentrl.rollout.contexts.base import Context
from agentrl.rollout.options import ContextOptions


def make(options: ContextOptions) -> Context:
  """The context policy that a config names, or one's own by `module:NAME`.

  Raises:
    ConfigError: there is none, or one's own fails.
  """
  what = 'agent.context.kind='
  context = plugins.function(options.kind, CONTEXTS, what)(options)
  if not isinstance(context, Context):
    raise ConfigError(
        f'{what}{options.kind} gives {type(context).__name__}, not a Context of'
        ' agentrl.rollout.contexts.base.'
    )
  return context


CONTEXTS: dict[str, Callable[[ContextOptions], Context]] = {
    'full': lambda options: Context(window.full),
    'window': lambda options: Context(window.window(options.window)),
    'summary': lambda options: Context(
        summary.summary(
            options.budget, options.summary_tokens, learn=options.learn_summary
        )
    ),
    'fold': lambda options: fold.fold(options.branches),
    'notes': lambda options: notes.notes(options.window, options.notes_tokens),
}

# Kinds that count tokens, which a policy over messages does not know.
COUNTING = ('summary', 'notes')
