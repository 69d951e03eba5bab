"""Tasks on reviews of products."""

from agentrl.sites.admin.tasks.steps import (
    START,
    filters,
    many,
    menu,
    named,
    nth,
    rows,
    search,
)
from agentrl.sites.answers import Number, Several, Text
from agentrl.sites.goals import CHANGED, REMOVED, Goal, Row
from agentrl.sites.task import (
    CHANGE,
    SEEK,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
    stop,
)

_REVIEWS = menu('Marketing', 'All Reviews')
_PENDING = menu('Marketing', 'Pending Reviews')
_PLAIN = ('http://admin/cms/page/',)  # a page without figures
# Products with a few reviews.
_TALKED = (
    'SELECT p.id, p.name FROM products p JOIN reviews r ON r.product_id = p.id'
    ' GROUP BY p.id HAVING count(*) BETWEEN 3 AND 15'
)
_TERMS = ('wobble', 'screws', 'stale', 'scratch', 'the seams')
_AUTHOR = {
    'customer': ('IS NOT NULL', 'customers'),
    'guest': ('IS NULL', 'guests'),
}
_MONTHS = (
    ('2022-03', 'March 2022'),
    ('2022-08', 'August 2022'),
    ('2022-11', 'November 2022'),
    ('2023-02', 'February 2023'),
    ('2023-04', 'April 2023'),
)


def _unhappiest(stores: Stores, k: int) -> Task:
  row = nth(
      named(
          stores,
          "SELECT p.name, r.*, c.email, c.first_name || ' ' || c.last_name AS"
          f' customer FROM ({_TALKED}) p JOIN reviews r ON r.product_id = p.id'
          ' JOIN customers c ON c.id = r.customer_id WHERE r.stars <= 2 AND NOT'
          ' EXISTS (SELECT 1 FROM reviews s WHERE s.product_id = p.id AND s.id'
          ' != r.id AND (s.stars <= r.stars OR s.title = r.title)) ORDER BY'
          ' r.id',
      ),
      k,
  )
  word, said = (
      ('email address', row['email']),
      ('full name', row['customer']),
  )[k % 2]
  return Task(
      intent=(
          f'Which customer is the unhappiest with "{row["name"]}", going by'
          f' the stars of all its reviews? Answer with the {word} of the'
          ' customer.'
      ),
      goal=Goal(Text(said)),
      steps=(
          *_REVIEWS,
          search(row['name']),
          click_on('link', row['title']),
          stop(said),
      ),
      start=START,
  )


def _unhappy(stores: Stores, k: int) -> Task:
  product = nth(
      named(
          stores,
          f'{_TALKED} AND sum(r.stars <= 2) BETWEEN 2 AND 4 AND count(DISTINCT'
          ' r.nickname) = count(*) ORDER BY p.id',
      ),
      k,
  )
  found = rows(
      stores,
      'SELECT nickname FROM reviews WHERE product_id = ? AND stars <= 2'
      ' ORDER BY id',
      product['id'],
  )
  answer = Several([Text(row['nickname']) for row in found])
  return Task(
      intent=(
          f'Who has given "{product["name"]}" only one or two stars? Answer'
          ' with the nicknames, separated by semicolons.'
      ),
      goal=Goal(answer),
      steps=(*_REVIEWS, search(product['name']), stop(answer.example())),
      start=START,
  )


def _dislike(stores: Stores, k: int) -> Task:
  row = nth(
      named(
          stores,
          f'SELECT p.name, r.title FROM ({_TALKED} AND sum(r.stars = 1) = 1) p'
          ' JOIN reviews r ON r.product_id = p.id WHERE r.stars = 1 ORDER BY'
          ' p.id DESC',
      ),
      k,
  )
  return Task(
      intent=(
          f'What is the title of the only one-star review of "{row["name"]}"?'
      ),
      goal=Goal(Text(row['title'])),
      steps=(*_REVIEWS, search(row['name']), stop(row['title'])),
      start=START,
  )


def _like(stores: Stores, k: int) -> Task:
  row = nth(
      named(
          stores,
          'SELECT p.name, r.nickname, max(r.created_at) FROM ('
          f'{_TALKED} AND sum(r.stars = 5) BETWEEN 2 AND 4) p JOIN reviews r ON'
          ' r.product_id = p.id WHERE r.stars = 5 GROUP BY p.id ORDER BY'
          ' p.name',
      ),
      k,
  )
  return Task(
      intent=(
          'Find the most recent five-star review of'
          f' "{row["name"]}". Under which nickname was it written?'
      ),
      goal=Goal(Text(row['nickname'])),
      steps=(
          *_REVIEWS,
          *filters(fill('Product', row['name']), choose('Rating', '5')),
          stop(row['nickname']),
      ),
      start=START,
  )


def _of_month(stores: Stores, k: int) -> Task:
  month, words = _MONTHS[k]
  days = rows(stores, "SELECT date(? || '-01', '+1 month', '-1 day')", month)
  count = rows(
      stores,
      'SELECT count(*) FROM reviews WHERE substr(created_at, 1, 7) = ?',
      month,
  )[0][0]
  answer = Number(str(count), 'reviews')
  return Task(
      intent=(
          f'How many reviews did our shop receive in {words}? Answer with'
          ' the number.'
      ),
      goal=Goal(answer),
      steps=(
          *_REVIEWS,
          *filters(
              fill('Created from', f'{month}-01'),
              fill('Created to', days[0][0]),
          ),
          stop(answer.example()),
      ),
      start=_PLAIN,
  )


def _of_status(stores: Stores, k: int) -> Task:
  status, label, stars = (
      ('pending', 'Pending', None),
      ('rejected', 'Not Approved', None),
      ('approved', 'Approved', None),
      ('approved', 'Approved', 1),
      ('approved', 'Approved', 4),
  )[k]
  count = rows(
      stores,
      'SELECT count(*) FROM reviews WHERE status = ? AND stars = coalesce(?,'
      ' stars)',
      status,
      stars,
  )[0][0]
  answer = Number(str(count), 'reviews')
  rating = f' and the rating {stars}' if stars else ''
  chosen = (choose('Rating', str(stars)),) if stars else ()
  return Task(
      intent=(
          f'What is the total count of reviews with the status "{label}"'
          f'{rating}? Answer with the number.'
      ),
      goal=Goal(answer),
      steps=(
          *_REVIEWS,
          *filters(choose('Status', label), *chosen),
          stop(answer.example()),
      ),
      start=_PLAIN,
  )


def _with_term(stores: Stores, k: int) -> Task:
  term = _TERMS[k]
  count = rows(
      stores,
      'SELECT count(*) FROM reviews WHERE instr(lower(text), ?)',
      term,
  )[0][0]
  answer = Number(str(count), 'reviews')
  return Task(
      intent=(
          'In how many of all reviews that our shop received does the text'
          f' contain "{term}"? Answer with the number.'
      ),
      goal=Goal(answer),
      steps=(*_REVIEWS, *filters(fill('Review', term)), stop(answer.example())),
      start=_PLAIN,
  )


def _pending(stores: Stores, k: int, few: bool) -> tuple[str, list, str, str]:
  """Author's type, pending reviews, and words for their stars and authors."""
  groups = rows(
      stores,
      "SELECT stars, CASE WHEN customer_id IS NULL THEN 'guest' ELSE 'customer'"
      " END AS author, count(*) AS size FROM reviews WHERE status = 'pending'"
      ' GROUP BY stars, author HAVING size <= 20 AND (stars <= 2) = ? ORDER BY'
      ' stars DESC, author',
      few,
  )
  group = nth(groups, k, 4)
  test, words = _AUTHOR[group['author']]
  found = rows(
      stores,
      "SELECT id FROM reviews WHERE status = 'pending' AND stars = ? AND"
      f' customer_id {test} ORDER BY id',
      group['stars'],
  )
  return group['author'].capitalize(), found, str(group['stars']), words


def _approve(stores: Stores, k: int) -> Task:
  author, found, stars, words = _pending(stores, k, False)
  return Task(
      intent=(
          f'Approve all pending reviews with {stars} stars that were written'
          f' by {words}.'
      ),
      goal=Goal(
          rows=[
              Row('shop.reviews', CHANGED, {'status': 'approved'}, row['id'])
              for row in found
          ]
      ),
      steps=(
          *_PENDING,
          *filters(
              choose('Rating', stars), choose('Type', author), opened=True
          ),
          *many('Set status to Approved'),
          stop(),
      ),
      start=START,
  )


def _delete(stores: Stores, k: int) -> Task:
  author, found, stars, words = _pending(stores, k, True)
  plural = 'star' if stars == '1' else 'stars'
  return Task(
      intent=(
          f'Delete all pending reviews with {stars} {plural} that were'
          f' written by {words}.'
      ),
      goal=Goal(
          rows=[Row('shop.reviews', REMOVED, key=row['id']) for row in found]
      ),
      steps=(
          *_PENDING,
          *filters(
              choose('Rating', stars), choose('Type', author), opened=True
          ),
          *many('Delete'),
          click_on('button', 'OK'),
          stop(),
      ),
      start=START,
  )


def _reject(stores: Stores, k: int) -> Task:
  row = nth(
      rows(
          stores,
          'SELECT r.*, p.name FROM reviews r JOIN products p ON p.id ='
          " r.product_id WHERE r.status = 'pending' AND (SELECT count(*) FROM"
          ' reviews s WHERE s.nickname = r.nickname AND s.product_id ='
          ' r.product_id) = 1 AND (SELECT count(*) FROM reviews s WHERE'
          " s.status = 'pending' AND s.nickname = r.nickname) = 1 ORDER BY"
          ' r.id',
      ),
      k,
  )
  return Task(
      intent=(
          f'The pending review of "{row["name"]}" by {row["nickname"]} is'
          ' not to be shown. Set it to "Not Approved".'
      ),
      goal=Goal(
          rows=(
              Row('shop.reviews', CHANGED, {'status': 'rejected'}, row['id']),
          )
      ),
      steps=(
          *_PENDING,
          *filters(fill('Nickname', row['nickname']), opened=True),
          click_on('link', row['title']),
          choose('Status', 'Not Approved'),
          click_on('button', 'Save Review'),
          stop(),
      ),
      start=START,
  )


def _average(stores: Stores, k: int) -> Task:
  row = nth(
      named(
          stores,
          "SELECT p.name, printf('%.2f', avg(r.stars)) AS average FROM products"
          " p JOIN reviews r ON r.product_id = p.id WHERE r.status = 'approved'"
          ' GROUP BY p.id HAVING count(*) >= 7 AND'
          # Nothing that could be rounded up or down.
          ' sum(r.stars) * 200 % (2 * count(*)) != count(*) ORDER BY p.id',
      ),
      k,
  )
  answer = Number(row['average'])
  return Task(
      intent=(
          'Which average rating do the approved reviews of'
          f' "{row["name"]}" come to? Answer with the number, rounded to two'
          ' decimals.'
      ),
      goal=Goal(answer),
      steps=(
          *menu('Reports', 'Product Reviews'),
          search(row['name']),
          stop(answer.example()),
      ),
      start=START,
  )


TEMPLATES = (
    Template('admin/reviews-of-month', SEEK, _of_month, 5, (248,)),
    Template('admin/approve-reviews', CHANGE, _approve, 4, (243,)),
    Template('admin/unhappiest-customer', SEEK, _unhappiest, 5, (244,)),
    Template('admin/unhappy-nicknames', SEEK, _unhappy, 5, (245,)),
    Template('admin/delete-reviews', CHANGE, _delete, 4, (246,)),
    Template('admin/one-star-review', SEEK, _dislike, 5, (249,)),
    Template('admin/five-star-review', SEEK, _like, 5, (250,)),
    Template('admin/reject-review', CHANGE, _reject, 5),
    Template('admin/reviews-by-status', SEEK, _of_status, 5, (277,)),
    Template('admin/reviews-with-term', SEEK, _with_term, 5, (288,)),
    Template('admin/average-rating', SEEK, _average, 5),
)
