"""Tests for agentrl.envs.searchqa.dataset.facts, on the questions made of them."""

from agentrl.envs.searchqa import expert
from agentrl.envs.searchqa.scoring import fold, normalise


def test_every_hop_is_stated_and_the_last_one_says_a_right_answer(
    all_questions, passages
):
  for question in all_questions:
    for hop in question.hops:
      told = [x for title in hop.titles for x in passages[title]]
      assert any(expert.states(x, hop) for x in told), (question.text, hop)
    said = [
        f' {normalise(fold(f"{x.title} {x.text}"))} '
        for x in told
        if expert.states(x, hop)
    ]
    golds = [normalise(fold(x)) for x in question.answers]
    assert any(f' {x} ' in text for x in golds for text in said), question.text
