"""Algorithms, by the name that configs use.

An online algorithm is a module with `Knobs`, `advantages(batch, knobs,
num_groups=)`, `loss(outputs, batch, scale, knobs, use_kl=)`, and what it needs:
`GROUPS` (several episodes of a task) and `CRITIC` (values). An offline one has
`loss(outputs, batch, scale, ...)` alone. To add one, write its file and its
line here.
"""

from agentrl.algos import (
    agentevol,
    dpo,
    gigpo,
    grpo,
    ppo,
    reinforce_pp,
    rloo,
    sft,
)

ONLINE = {
    'grpo': grpo,
    'rloo': rloo,
    'reinforce_pp': reinforce_pp,
    'ppo': ppo,
    'gigpo': gigpo,
}
OFFLINE = {'sft': sft, 'dpo': dpo, 'agentevol': agentevol}
