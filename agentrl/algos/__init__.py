"""Algorithms, by the name that configs use.

An online algorithm is a module with `advantages(batch, ...)` and `loss(...)`;
an offline one has `loss(...)` alone. To add one, write its file and its line
here.
"""

from agentrl.algos import grpo, sft

ONLINE = {'grpo': grpo}
OFFLINE = {'sft': sft}
