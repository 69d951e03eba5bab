"""Online algorithms, by the name that configs use.

Each is a module with `Hyperparams`, `advantages(batch, hyperparams,
num_groups=)` and `loss(outputs, batch, denominators, hyperparams)`. To add one,
write its file, its hyperparameters in `hyperparams`, and its line here.
"""

from agentrl.algos import gigpo, grpo, ppo, reinforce_pp, rloo

ONLINE = {
    'grpo': grpo,
    'rloo': rloo,
    'reinforce_pp': reinforce_pp,
    'ppo': ppo,
    'gigpo': gigpo,
}
