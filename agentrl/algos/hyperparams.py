"""Hyperparameters of the algorithms: the fields of `config.algo`.

An online algorithm has its own beside those of `Online`, which decide how a
collection is used and what the policy's loss is; the modules of the same names
compute it. Imports no jax: configs are read before it is.
"""

import dataclasses
from typing import ClassVar

from agentrl.errors import ConfigError
from agentrl.fields import (
    ActsIf,
    field,
    get,
    section,
    unless_set,
    when,
    when_set,
)

_UPDATES = ActsIf(
    lambda config: config.algo.updates > 1 or config.algo.ratio == 'sampler',
    {'algo.minibatches': 2},
    'one update a collection keeps every ratio at 1; set algo.minibatches or'
    " algo.epochs above 1, or algo.ratio='sampler'",
)
_OLD_VALUES = ActsIf(
    lambda config: config.algo.updates > 1,
    {'algo.minibatches': 2},
    'one update a collection starts where the old values are; set'
    ' algo.minibatches or algo.epochs above 1',
)
_KL = when_set('algo.kl_coef', 0.1, 'algo.kl_coef=0 leaves the reference out')
_STEERED = when_set('algo.kl_target', 0.1, 'algo.kl_target is not set')
_REFILL = when('algo.ties', 'refill', reason="algo.ties is not 'refill'")
_CLIPS = when(
    'algo.surrogate', 'clip', reason='only algo.surrogate=clip clips a token'
)
_BOUNDED = when(
    'algo.surrogate',
    *('clip', 'cispo', 'dppo_tv', 'dppo_kl'),
    reason="algo.surrogate='topr' has a bound of its own, 1",
)
_OF_TOKENS = when(
    'algo.surrogate',
    *('clip', 'cispo', 'topr'),
    reason="the trust region of algo.surrogate=dppo_tv or dppo_kl is a token's",
)
_CAPPED = when_set(
    'algo.importance_cap', 2.0, 'algo.importance_cap, the upper bound, is None'
)
_CONSTANT = when(
    'algo.aggregation', 'constant', reason="algo.aggregation is not 'constant'"
)
_TRAINERS_WORD = when(
    'algo.ratio',
    'old',
    reason="algo.ratio='sampler' takes the sampler's word already",
)
_STD = when_set(
    'algo.normalise_std', True, 'algo.normalise_std=False divides by nothing'
)
_TOKENS = unless_set(
    'algo.group_baseline', False, 'algo.group_baseline compares whole returns'
)
_TRACES = when_set('algo.gamma', 1.0, 'algo.gamma=0 ends every trace')
_STEPS = when_set(
    'algo.step_weight', 1.0, 'algo.step_weight=0 leaves turns out'
)
_HELDOUT = when_set('algo.heldout', 0.05, 'algo.heldout is 0')
_SIGMOID = when('algo.loss', 'sigmoid')

PROMPT_WEIGHT = 'loss weight of prompts and observations, see algos.sft'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Online:
  """Base of the online algorithms."""

  name: ClassVar[str]
  GROUPS: ClassVar[bool] = False  # compares the episodes of a group
  CRITIC: ClassVar[bool] = False
  TEACHER: ClassVar[bool] = False  # has a field `teacher`

  # How a collection is used.
  epochs: int = field(1, 'passes over a collection', ge=1)
  minibatches: int = field(1, 'updates a pass', ge=1)
  # 'sampler' costs no pass, and corrects for a sampler that is stale.
  ratio: str = field(
      'old',
      "log-probabilities that the policy's are compared with: the trainer's"
      " before the first update, or the sampler's",
      one_of=('old', 'sampler'),
  )
  kl_coef: float = field(0.0, 'weight of the KL to the starting policy', ge=0)
  kl_in: str = field(
      'loss', 'where that KL acts', one_of=('loss', 'reward'), acts_if=_KL
  )
  kl_estimator: str = field(
      'k3+',
      'estimator of that KL, see ops.kl',
      one_of=('k1', 'k2', 'k3', 'k3+'),
      acts_if=_KL,
  )
  kl_target: float | None = field(
      None, 'KL that the weight is steered to; None: fixed', gt=0, acts_if=_KL
  )
  kl_horizon: int = field(
      10_000,
      'episodes over which the weight is steered',
      ge=1,
      acts_if=(_KL, _STEERED),
  )
  # From groups of equal returns nothing follows. 'keep': they count in the
  # denominators; 'mask': they do not; 'refill': nor do they, and other tasks
  # take their place (dynamic sampling, arXiv:2503.14476).
  ties: str = field(
      'keep',
      'treatment of groups of equal returns',
      one_of=('keep', 'mask', 'refill'),
  )
  refill_rounds: int = field(
      3, 'further collections of a step, at most', ge=1, acts_if=_REFILL
  )
  # 'mask': part of group statistics, not of the loss (overlong filtering, ibid.)
  truncated: str = field(
      'keep', 'treatment of episodes that we cut', one_of=('keep', 'mask')
  )
  # The return falls linearly, by 1 at the end (soft overlong punishment, ibid.)
  overlong_buffer: int = field(
      0, 'last tokens of the context that lower the return', ge=0
  )

  # The policy's loss, see `algos.policy`.
  # Of DPPO's regions: the largest divergence where the advantage is negative.
  clip_low: float = field(
      0.2,
      'ratios are clipped below 1 - clip_low',
      gt=0,
      acts_if=(_UPDATES, _BOUNDED),
  )
  # Above clip_low: clip-higher (DAPO).
  clip_high: float = field(
      0.2,
      'ratios are clipped above 1 + clip_high',
      gt=0,
      acts_if=(_UPDATES, _BOUNDED),
  )
  dual_clip: float | None = field(
      None,
      'bound of the ratio at a negative advantage (arXiv:1912.09729)',
      gt=1,
      acts_if=(_UPDATES, _CLIPS),
      example=3.0,
  )
  surrogate: str = field(
      'clip',
      "PPO's clip, CISPO (arXiv:2506.13585), DPPO's trust regions"
      ' (arXiv:2602.04879), or TOPR (arXiv:2503.14286); see ops.policy_loss',
      one_of=('clip', 'cispo', 'dppo_tv', 'dppo_kl', 'topr'),
      acts_if=_UPDATES,
  )
  ratio_level: str = field(
      'token',
      "a token's own ratio, or GSPO-token's (arXiv:2507.18071)",
      one_of=('token', 'sequence'),
      acts_if=(_UPDATES, _OF_TOKENS),
  )
  aggregation: str = field(
      'token',
      'mean over a minibatch, see ops.aggregate',
      one_of=('token', 'sequence', 'constant', 'turn'),
  )
  aggregation_constant: float | None = field(
      None,
      "tokens that an episode's sum is divided by",
      gt=0,
      acts_if=_CONSTANT,
  )
  # Where few episodes succeed most sampled tokens are pushed away, and what is
  # pushed away goes anywhere: entropy rises. 0 leaves rejection sampling, with
  # weights (arXiv:2504.11343 and 2506.01347 compare).
  negative_weight: float = field(1.0, 'weight of negative advantages', ge=0)
  entropy_coef: float = field(0.0, 'weight of the entropy bonus', ge=0)
  # Off-policy correction by the sampler's log-probabilities, `ops.correction`.
  importance_cap: float | None = field(
      None,
      'cap of truncated importance sampling; None: none',
      gt=0,
      acts_if=_TRAINERS_WORD,
  )
  importance_low: float | None = field(
      None,
      'ratios below it, and above importance_cap, have weight 0 (IcePop)',
      gt=0,
      acts_if=(_TRAINERS_WORD, _CAPPED),
      example=0.5,
  )
  sequence_cap: float | None = field(
      None,
      "cap of truncated importance sampling by an episode's product",
      gt=0,
      acts_if=_TRAINERS_WORD,
  )
  sequence_low: float | None = field(
      None, 'lower bound of the geometric sequence mask', acts_if=_TRAINERS_WORD
  )
  sequence_high: float | None = field(
      None,
      'upper bound of the geometric sequence mask',
      acts_if=_TRAINERS_WORD,
      example=2.0,
  )
  sequence_k3: float | None = field(
      None,
      'mean k3 beyond which an episode is left out',
      gt=0,
      acts_if=_TRAINERS_WORD,
  )
  outlier: float | None = field(
      None,
      'ratio x: an episode with one beyond x or below 1/x is left out',
      gt=1,
      acts_if=_TRAINERS_WORD,
      example=100.0,
  )
  correction: str = field(
      'none',
      'further weights: a function of old and sampler_logprobs, mask and batch,'
      ' all [B, T]',
      one_of=('none',),
      own=True,
      acts_if=_TRAINERS_WORD,
      example='my_parts.py:correction',
  )

  @property
  def updates(self) -> int:
    """Number of updates on one collection."""
    return self.epochs * self.minibatches

  @property
  def recomputes(self) -> bool:
    """True if ratios compare with log-probabilities of an extra pass."""
    return self.updates > 1 and self.ratio == 'old'

  @property
  def scores(self) -> bool:
    """True if a collection is scored before its first update."""
    return self.recomputes or self.kl_in_reward or self.CRITIC

  @property
  def corrects(self) -> bool:
    """True if the loss allows for samples of an earlier policy."""
    return (
        self.ratio == 'sampler'
        or self.correction != 'none'
        or self.importance_cap is not None
        or self._corrects_sequences
    )

  @property
  def refills(self) -> int:
    """Further collections of a step that replace groups of equal returns."""
    return self.refill_rounds * (self.ties == 'refill')

  @property
  def _corrects_sequences(self) -> bool:
    limits = (self.sequence_low, self.sequence_k3, self.outlier)
    return self.sequence_cap is not None or any(
        limit is not None for limit in limits
    )

  @property
  def kl_in_loss(self) -> bool:
    return self.kl_coef > 0 and self.kl_in == 'loss'

  @property
  def kl_in_reward(self) -> bool:
    return self.kl_coef > 0 and self.kl_in == 'reward'

  @property
  def shapes_rewards(self) -> bool:
    """True if rewards are not the environment's alone."""
    return self.kl_in_reward or self.overlong_buffer > 0

  @property
  def critic_settings(self) -> 'Critic | None':
    """The field `critic`, which those have whose CRITIC is True; else None."""
    return get(self, 'critic') if self.CRITIC else None

  @property
  def teacher_settings(self) -> 'Teacher | None':
    """The field `teacher`, which those have whose TEACHER is True; else None."""
    return get(self, 'teacher') if self.TEACHER else None

  @property
  def compares(self) -> bool:
    """True if an advantage needs other episodes of the same task."""
    return self.GROUPS

  @property
  def whole_episodes(self) -> bool:
    """True if a term of the loss is of an episode, not of tokens or turns."""
    return (
        self.ratio_level == 'sequence'
        or self.aggregation == 'sequence'
        or self._corrects_sequences
        or self.correction != 'none'
    )

  def check(self) -> None:
    """Refuses what contradicts itself.

    Raises:
      ConfigError: names the contradiction and the way out.
    """
    if self.clip_low > 1 or (self.clip_low == 1 and self.surrogate == 'clip'):
      raise ConfigError(
          f'algo.clip_low={self.clip_low} never clips: a ratio is above 0.'
      )
    if self.aggregation == 'constant' and self.aggregation_constant is None:
      raise ConfigError(
          "algo.aggregation='constant' divides by algo.aggregation_constant:"
          ' set the tokens of a long episode.'
      )
    low, high = self.sequence_low, self.sequence_high
    if (low is None) != (high is None):
      raise ConfigError(
          'algo.sequence_low and algo.sequence_high are one range: set both.'
      )
    below, cap = self.importance_low, self.importance_cap
    if below is not None and cap is not None and not cap > below:
      raise ConfigError(
          f'algo.importance_cap must be above {below}, algo.importance_low, got'
          f' {cap}.'
      )
    if low is not None and high is not None and not high > low:
      raise ConfigError(
          f'algo.sequence_high must be above {low}, the lower bound, got'
          f' {high}.'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grpo(Online):
  """Hyperparameters of `algos.grpo`."""

  name = 'grpo'
  GROUPS = True

  normalise_std: bool = field(
      True, "divide by the group's deviation; False: Dr. GRPO"
  )
  ddof: int = field(
      1,
      'delta degrees of freedom of that deviation',
      one_of=(0, 1),
      acts_if=_STD,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rloo(Online):
  """Hyperparameters of `algos.rloo`: those of all."""

  name = 'rloo'
  GROUPS = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReinforcePP(Online):
  """Hyperparameters of `algos.reinforce_pp`."""

  name = 'reinforce_pp'

  gamma: float = field(
      1.0, 'discount of a sampled token', ge=0, le=1, acts_if=_TOKENS
  )
  group_baseline: bool = field(False, "subtract the mean of the task's returns")

  @property
  def compares(self) -> bool:
    return self.group_baseline


@dataclasses.dataclass(frozen=True, kw_only=True)
class Critic:
  """A critic and its optimizer."""

  # 'own': a network; 'shared': a head on the policy's.
  kind: str = field('own', 'trunk of the critic', one_of=('own', 'shared'))
  lr: float = field(1e-5, 'learning rate', gt=0)
  grad_clip: float = field(1.0, 'norm of its gradient, at most', gt=0)
  warmup: int = field(0, 'rl steps in which only the critic learns', ge=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ppo(Online):
  """Hyperparameters of `algos.ppo`."""

  name = 'ppo'
  CRITIC = True

  gamma: float = field(
      1.0, 'discount of a sampled token, or of a turn', ge=0, le=1
  )
  lam: float = field(
      1.0,
      'decay of the trace, of a token or a turn',
      ge=0,
      le=1,
      acts_if=_TRACES,
  )
  turn_level: bool = field(False, 'decide by turns, not by tokens')
  # False: it has failed. With gamma 1 and no failure but the cut, a critic that
  # continues such episodes learns that all is well.
  bootstrap: bool = field(True, 'continue episodes that we cut by the critic')
  whiten: bool = field(True, 'standardise advantages over the collection')
  value_clip: float | None = field(
      0.5,
      "clip of the critic's values, in units of the return",
      gt=0,
      acts_if=_OLD_VALUES,
  )
  value_coef: float = field(0.5, "weight of the critic's loss", gt=0)
  critic: Critic = section(Critic)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GiGpo(Online):
  """Hyperparameters of `algos.gigpo`."""

  name = 'gigpo'
  GROUPS = True

  # Of both levels; False: the paper's F_norm = 1.
  normalise_std: bool = field(True, "divide by the groups' deviations")
  ddof: int = field(
      1,
      'delta degrees of freedom of those deviations',
      one_of=(0, 1),
      acts_if=_STD,
  )
  gamma: float = field(0.95, 'discount of a turn', ge=0, le=1, acts_if=_STEPS)
  step_weight: float = field(
      1.0, "weight of turns' advantages, the paper's omega", ge=0
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Teacher:
  """The policy that scores what the student samples, of the same tokenizer."""

  # An engine of the run serves it. The policy's own start, model.name, teaches
  # what it knows with a hint and should know without.
  model: str | None = field(
      None,
      "model of the teacher, named as model.name is; None: that one, or urls'",
      example='smollm2-135m',
  )
  urls: tuple[str, ...] = field(
      (),
      "servers of the teacher that speak SGLang's protocol",
      example=('http://127.0.0.1:1',),
  )
  api_key_file: str | None = field(
      None,
      "file with those servers' key",
      acts_if=when_set(
          'algo.teacher.urls',
          ('http://127.0.0.1:1',),
          'only servers are asked with it',
      ),
  )
  hint: str = field(
      '',
      'words that the teacher reads before the first observation',
      acts_if=unless_set(
          'mixture', {}, 'members of a mixture have prompts of their own'
      ),
  )
  concurrency: int = field(16, 'episodes that it scores at a time', ge=1)

  def check(self) -> None:
    if self.model and self.urls:
      raise ConfigError(
          f'There is one teacher: leave out algo.teacher.model={self.model!r},'
          ' which an engine of the run would serve, or algo.teacher.urls='
          f'{self.urls}, servers that run.'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distill(Online):
  """Hyperparameters of `algos.distill`."""

  name = 'distill'
  TEACHER = True

  # 0: the teacher's word alone. Else GRPO's advantage of the return is added,
  # and a group needs two episodes.
  return_coef: float = field(0.0, "weight of the return's advantage", ge=0)
  teacher: Teacher = section(Teacher)

  @property
  def compares(self) -> bool:
    return self.return_coef > 0

  @property
  def scores(self) -> bool:
    return True


ONLINE = {
    cls.name: cls for cls in (Grpo, Rloo, ReinforcePP, Ppo, GiGpo, Distill)
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Supervised:
  """Passes over data: what the offline algorithms share."""

  epochs: int = field(1, 'passes over the data', ge=1)
  minibatch_size: int = field(
      16, 'demonstrations, or pairs, of an update', ge=1
  )
  warmup: float = field(0.1, 'share of the updates that warm up', ge=0, le=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sft(Supervised):
  """Hyperparameters of `algos.sft`."""

  prompt_weight: float = field(0.0, PROMPT_WEIGHT, ge=0)
  heldout: float = field(
      0.05, 'share of the demonstrations for the validation loss', ge=0, lt=1
  )
  validate_every: int = field(
      0, 'updates between validations; 0: an epoch', ge=0, acts_if=_HELDOUT
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dpo(Supervised):
  """Hyperparameters of `algos.dpo`; see `ops.preference_loss`."""

  loss: str = field(
      'sigmoid',
      'form of the loss, see ops.preference_loss',
      one_of=('sigmoid', 'hinge', 'ipo'),
  )
  beta: float = field(0.1, 'weight of the reference: more keeps closer', gt=0)
  label_smoothing: float = field(
      0.0,
      'share of pairs that are the wrong way round',
      ge=0,
      lt=0.5,
      acts_if=_SIGMOID,
  )
  reference_free: bool = field(
      False, 'one reference probability for all episodes'
  )
  length_normalised: bool = field(False, 'means over tokens instead of sums')
  nll_coef: float = field(0.0, 'weight of imitating the better episode', ge=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentEvol(Supervised):
  """Hyperparameters of `algos.agentevol`."""

  threshold: float = field(0.0, 'return above which an episode is kept')
  weighting: str = field(
      'equal', 'weights of kept episodes', one_of=('equal', 'return')
  )

  def check(self) -> None:
    if self.weighting == 'return' and self.threshold < 0:
      # A negative weight would unlearn, without a bound.
      raise ConfigError(
          "algo.threshold with weighting='return' must be at least 0, got"
          f' {self.threshold}.'
      )
