"""Tests of what charts and colours say, by the pages' own modules."""

import pytest

from agentrl.evaluation.compare import comparison
from tests.viewer import runs

pytestmark = pytest.mark.browser

LABELS = """async (values) => {
  const {paint} = await import('/static/lib/paint.js');
  const context = document.createElement('canvas').getContext('2d');
  const found = [];
  const draw = context.fillText.bind(context);
  context.fillText = (text, x, y) => {
    const width = context.measureText(text).width;
    if (context.textAlign === 'right') found.push([text, x - width]);
    draw(text, x, y);
  };
  paint(context, {series: [{x: values.map((_, i) => i), y: values}]},
      {width: 360, height: 190, colors: () => '#000'});
  return found;
}"""
SCALE = """async ([name, values]) => {
  const {scaleOf} = await import('/static/lib/tokens.js');
  const {low, high, largest} = scaleOf(name, values, values.map(() => 1));
  return {low, high, largest};
}"""
P_VALUE = """async (row) => {
  const {pSaid} = await import('/static/lib/paired.js');
  return pSaid(row);
}"""


@pytest.mark.parametrize(
    'test, p_value',
    [
        ('mcnemar', 1.0),
        ('mcnemar', 0.0123),
        ('mcnemar', 0.00058),
        ('permutation', 0.00012),
        ('mcnemar', 3.14e-5),
        ('mcnemar', 2.0**-29),
        ('mcnemar', 0.0),
        ('permutation', 1e-6),
        ('permutation', 2e-6),
    ],
)
def test_pages_say_p_values_as_reports_do(
    tmp_path, viewer, page, test, p_value
):
  runs.write(tmp_path)
  page.goto(viewer(tmp_path))
  found = page.evaluate(P_VALUE, {'test': test, 'p_value': p_value})
  bound = comparison.is_bound(p_value, test)
  words = comparison.p_words(p_value, bound=bound).replace('<=', '≤')
  words = words if words[0] in '≤<' else f'= {words}'
  assert found == f'p {words}'.replace('e-0', 'e-')


@pytest.mark.parametrize(
    'values',
    [
        [5.90434, 5.904341],
        [-1234.56781, -1234.56779],
        [0.0000123456, 0.0000123457],
        [99999.5, 99999.51],
        [1e-300, 1e300],
        [0.25, 0.75],
    ],
)
def test_no_label_of_an_axis_loses_its_first_digits(
    tmp_path, viewer, page, values
):
  runs.write(tmp_path)
  page.goto(viewer(tmp_path))
  labels = page.evaluate(LABELS, values)
  assert labels and all(left >= 0 for _, left in labels), labels


@pytest.mark.parametrize(
    'name, values, high, largest',
    [
        ('advantages', [1e-7, -2e-8], '1e-7', 1e-7),
        ('advantages', [1e-3, -2e-4], '0.001', 1e-3),
        ('difference', [1e-7, 0.0], '0.1', 1e-7),
        ('difference', [-0.5, 0.0], '0.1', 0.5),
        ('ratio', [1.5, 0.9], '1.2', 1.5),
    ],
)
def test_a_scale_of_colours_has_its_maximum(
    tmp_path, viewer, page, name, values, high, largest
):
  runs.write(tmp_path)
  page.goto(viewer(tmp_path))
  found = page.evaluate(SCALE, [name, values])
  assert (found['high'], found['largest']) == (high, largest)


FILE_NAME = """async ([parts, ending]) => {
  const {fileName} = await import('/static/lib/names.js');
  return fileName(parts, ending);
}"""


def test_a_file_of_many_runs_still_says_what_it_shows(tmp_path, viewer, page):
  runs.write(tmp_path)
  page.goto(viewer(tmp_path))
  name = lambda *parts: page.evaluate(FILE_NAME, [parts, 'csv'])
  assert name('a/b', 'eval/success') == 'a_b-eval_success.csv'
  assert name('matrix-babyai') == 'matrix-babyai.csv'
  long = name(*(f'sweep/seed-{i}-of-many' for i in range(8)), 'policy/entropy')
  assert len(long) <= 101 and long.endswith('-policy_entropy.csv')
