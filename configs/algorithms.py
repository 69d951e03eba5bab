"""`config.algo` by the name of the algorithm's paper.

Values are the papers'; a config changes what its size asks for, and says why.
"""

from typing import Any

ALGORITHMS: dict[str, dict[str, Any]] = {
    # arXiv:2402.03300, in AgentGym-RL's form: token mean.
    'grpo': dict(name='grpo'),
    # Dr. GRPO, arXiv:2503.20783: neither the group's deviation nor an
    # episode's length divides.
    'dr_grpo': dict(
        name='grpo',
        normalise_std=False,
        aggregation='constant',
        aggregation_constant=1024.0,
    ),
    # DAPO, arXiv:2503.14476: clip-higher, token mean, dynamic sampling. Its
    # punishment of length is `overlong_buffer`, for tasks of one long answer.
    'dapo': dict(name='grpo', clip_high=0.28, ties='refill'),
    # GSPO, arXiv:2507.18071: ratios of whole sequences, hence the small clip.
    'gspo': dict(
        name='grpo',
        ratio_level='sequence',
        aggregation='sequence',
        clip_low=3e-4,
        clip_high=4e-4,
    ),
    # CISPO, arXiv:2506.13585: only the upper bound of the weight acts. 5 as in
    # arXiv:2510.13786, which compares bounds.
    'cispo': dict(name='grpo', surrogate='cispo', clip_low=1.0, clip_high=4.0),
    # GiGPO, arXiv:2505.10978.
    'gigpo': dict(name='gigpo', gamma=0.95, step_weight=1.0),
    # RLOO, arXiv:2402.14740: the episode is one action, so its tokens are
    # summed; a constant keeps the rate's scale.
    'rloo': dict(
        name='rloo', aggregation='constant', aggregation_constant=1024.0
    ),
    # REINFORCE++, arXiv:2501.03262.
    'reinforce_pp': dict(name='reinforce_pp', gamma=1.0),
    # On-policy distillation, arXiv:2306.13649: add algo.teacher.model=NAME, or
    # algo.teacher.urls.
    'distill': dict(name='distill'),
    # PPO, arXiv:1707.06347, with AgentGym-RL's critic. In these environments
    # an episode fails by running out of turns and in no other way: continued
    # by the critic it would not count as a failure at all.
    'ppo': dict(
        name='ppo',
        bootstrap=False,
        gamma=1.0,
        lam=1.0,
        value_clip=0.5,
        critic=dict(kind='own', lr=1e-5, warmup=0),
    ),
}

# Corrections of a sampler that is behind, or computes otherwise: fields that go on
# top of an algorithm's, `{**algorithms.get('grpo'), **CORRECTIONS['icepop']}`.
CORRECTIONS: dict[str, dict[str, Any]] = {
    # The policy that sampled is the one that ratios are to; no extra pass.
    'bypass': dict(ratio='sampler'),
    # Truncated importance sampling of tokens: with several updates a collection
    # decoupled PPO (arXiv:2505.24298), whose clip is to the present policy.
    'token': dict(ratio='old', importance_cap=2.0),
    # arXiv:2510.18855.
    'icepop': dict(ratio='old', importance_low=0.5, importance_cap=5.0),
    'sequence': dict(ratio='old', sequence_cap=2.0),
    # Masks of whole episodes, beside truncated weights of their tokens.
    'geometric': dict(
        ratio='old', importance_cap=2.0, sequence_low=0.99, sequence_high=1.01
    ),
    'k3': dict(ratio='old', importance_cap=2.0, sequence_k3=0.01),
    'outlier': dict(ratio='old', importance_cap=2.0, outlier=1e4),
    # arXiv:2602.04879: regions of each token around the policy that sampled.
    'dppo_tv': dict(
        ratio='sampler', surrogate='dppo_tv', clip_low=0.15, clip_high=0.15
    ),
    'dppo_kl': dict(
        ratio='sampler', surrogate='dppo_kl', clip_low=0.05, clip_high=0.05
    ),
    # arXiv:2503.14286.
    'topr': dict(ratio='sampler', surrogate='topr'),
}


def get(name: str, **changes: Any) -> dict[str, Any]:
  """A copy of an entry with some of its values replaced.

  Raises:
    ValueError: there is no such entry.
  """
  if name not in ALGORITHMS:
    raise ValueError(
        f'Unknown algorithm {name!r}; known: {", ".join(ALGORITHMS)}.'
    )
  return {**ALGORITHMS[name], **changes}
