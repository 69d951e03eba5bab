"""agentrl: multi-turn reinforcement learning of language-model agents."""
