"""Names that a config may choose from, for tests that ask each of them."""

import dataclasses

from agentrl import fields
from agentrl.algos.hyperparams import Dpo, Online


def of(section, name):
  """The names that one field of a section may have."""
  [field] = [f for f in dataclasses.fields(section) if f.name == name]
  return fields.meaning(field).one_of


KL_ESTIMATORS = of(Online, 'kl_estimator')
AGGREGATIONS = of(Online, 'aggregation')
RATIO_LEVELS = of(Online, 'ratio_level')
PREFERENCE_LOSSES = of(Dpo, 'loss')
