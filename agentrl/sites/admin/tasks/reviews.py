"""Tasks on reviews of products."""

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.admin.tasks import paths
from agentrl.sites.admin.tasks.paths import change, seek
from agentrl.sites.answers import Number, Several, Text
from agentrl.sites.goals import changed, removed

_VALUES = seed_data.read(__file__)
_REVIEWS = paths.menu('Marketing', 'All Reviews')
_PENDING = paths.menu('Marketing', 'Pending Reviews')
_PLAIN = 'cms/page/'  # a page without figures
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


def _unhappiest(db: t.Db, k: int) -> t.Task:
  row = paths.row_named(
      db,
      k,
      "SELECT p.name, r.*, c.email, c.first_name || ' ' || c.last_name AS"
      f' customer FROM ({_TALKED}) p JOIN reviews r ON r.product_id = p.id'
      ' JOIN customers c ON c.id = r.customer_id WHERE r.stars <= 2 AND NOT'
      ' EXISTS (SELECT 1 FROM reviews s WHERE s.product_id = p.id AND s.id'
      ' != r.id AND (s.stars <= r.stars OR s.title = r.title)) ORDER BY'
      ' r.id',
  )
  word, answer = (
      ('email address', row['email']),
      ('full name', row['customer']),
  )[k % 2]
  return seek(
      f'Which customer is the unhappiest with "{row["name"]}", going by'
      f' the stars of all its reviews? Answer with the {word} of the'
      ' customer.',
      Text(answer),
      *_REVIEWS,
      paths.search(row['name']),
      t.link(row['title']),
  )


def _unhappy(db: t.Db, k: int) -> t.Task:
  product = paths.row_named(
      db,
      k,
      f'{_TALKED} AND sum(r.stars <= 2) BETWEEN 2 AND 4 AND count(DISTINCT'
      ' r.nickname) = count(*) ORDER BY p.id',
  )
  reviews = db.rows(
      'SELECT nickname FROM reviews WHERE product_id = ? AND stars <= 2'
      ' ORDER BY id',
      product['id'],
  )
  return seek(
      f'Who has given "{product["name"]}" only one or two stars? Answer'
      ' with the nicknames, separated by semicolons.',
      Several([Text(row['nickname']) for row in reviews]),
      *_REVIEWS,
      paths.search(product['name']),
  )


def _dislike(db: t.Db, k: int) -> t.Task:
  row = paths.row_named(
      db,
      k,
      f'SELECT p.name, r.title FROM ({_TALKED} AND sum(r.stars = 1) = 1) p'
      ' JOIN reviews r ON r.product_id = p.id WHERE r.stars = 1 ORDER BY'
      ' p.id DESC',
  )
  return seek(
      f'What is the title of the only one-star review of "{row["name"]}"?',
      Text(row['title']),
      *_REVIEWS,
      paths.search(row['name']),
  )


def _like(db: t.Db, k: int) -> t.Task:
  row = paths.row_named(
      db,
      k,
      'SELECT p.name, r.nickname, max(r.created_at) FROM ('
      f'{_TALKED} AND sum(r.stars = 5) BETWEEN 2 AND 4) p JOIN reviews r ON'
      ' r.product_id = p.id WHERE r.stars = 5 GROUP BY p.id ORDER BY'
      ' p.name',
  )
  return seek(
      'Find the most recent five-star review of'
      f' "{row["name"]}". Under which nickname was it written?',
      Text(row['nickname']),
      *_REVIEWS,
      *paths.filters(t.fill('Product', row['name']), t.choose('Rating', '5')),
  )


def _of_month(db: t.Db, k: int) -> t.Task:
  month, words = _VALUES['months'][k]
  last = db.value("SELECT date(? || '-01', '+1 month', '-1 day')", month)
  count = db.value(
      'SELECT count(*) FROM reviews WHERE substr(created_at, 1, 7) = ?', month
  )
  return seek(
      f'How many reviews did our shop receive in {words}? Answer with'
      ' the number.',
      Number(str(count), 'reviews'),
      *_REVIEWS,
      *paths.filters(
          t.fill('Created from', f'{month}-01'), t.fill('Created to', last)
      ),
      start=_PLAIN,
  )


def _of_status(db: t.Db, k: int) -> t.Task:
  status, label, stars = _VALUES['of_status'][k]
  count = db.value(
      'SELECT count(*) FROM reviews WHERE status = ? AND stars = coalesce(?,'
      ' stars)',
      status,
      stars,
  )
  rating = f' and the rating {stars}' if stars else ''
  chosen = (t.choose('Rating', str(stars)),) if stars else ()
  return seek(
      f'What is the total count of reviews with the status "{label}"'
      f'{rating}? Answer with the number.',
      Number(str(count), 'reviews'),
      *_REVIEWS,
      *paths.filters(t.choose('Status', label), *chosen),
      start=_PLAIN,
  )


def _with_term(db: t.Db, k: int) -> t.Task:
  term = _TERMS[k]
  count = db.value(
      'SELECT count(*) FROM reviews WHERE instr(lower(text), ?)', term
  )
  return seek(
      'In how many of all reviews that our shop received does the text'
      f' contain "{term}"? Answer with the number.',
      Number(str(count), 'reviews'),
      *_REVIEWS,
      *paths.filters(t.fill('Review', term)),
      start=_PLAIN,
  )


def _pending(db: t.Db, k: int, few: bool) -> tuple[str, list, str, str]:
  """Author's type, pending reviews, and words for their stars and authors."""
  groups = db.rows(
      "SELECT stars, CASE WHEN customer_id IS NULL THEN 'guest' ELSE 'customer'"
      " END AS author, count(*) AS size FROM reviews WHERE status = 'pending'"
      ' GROUP BY stars, author HAVING size <= 20 AND (stars <= 2) = ? ORDER BY'
      ' stars DESC, author',
      few,
  )
  group = pick.kth_spread(groups, k, 4)
  test, words = _AUTHOR[group['author']]
  reviews = db.rows(
      "SELECT id FROM reviews WHERE status = 'pending' AND stars = ? AND"
      f' customer_id {test} ORDER BY id',
      group['stars'],
  )
  return group['author'].capitalize(), reviews, str(group['stars']), words


def _approve(db: t.Db, k: int) -> t.Task:
  author, reviews, stars, words = _pending(db, k, False)
  return change(
      f'Approve all pending reviews with {stars} stars that were written'
      f' by {words}.',
      [
          changed('shop.reviews', row['id'], status='approved')
          for row in reviews
      ],
      *_PENDING,
      *paths.filters(
          t.choose('Rating', stars), t.choose('Type', author), opened=True
      ),
      *paths.many('Set status to Approved'),
  )


def _delete(db: t.Db, k: int) -> t.Task:
  author, reviews, stars, words = _pending(db, k, True)
  plural = 'star' if stars == '1' else 'stars'
  return change(
      f'Delete all pending reviews with {stars} {plural} that were'
      f' written by {words}.',
      [removed('shop.reviews', row['id']) for row in reviews],
      *_PENDING,
      *paths.filters(
          t.choose('Rating', stars), t.choose('Type', author), opened=True
      ),
      *paths.many('Delete'),
      t.button('OK'),
  )


def _reject(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(
      k,
      'SELECT r.*, p.name FROM reviews r JOIN products p ON p.id ='
      " r.product_id WHERE r.status = 'pending' AND (SELECT count(*) FROM"
      ' reviews s WHERE s.nickname = r.nickname AND s.product_id ='
      ' r.product_id) = 1 AND (SELECT count(*) FROM reviews s WHERE'
      " s.status = 'pending' AND s.nickname = r.nickname) = 1 ORDER BY"
      ' r.id',
  )
  return change(
      f'The pending review of "{row["name"]}" by {row["nickname"]} is'
      ' not to be shown. Set it to "Not Approved".',
      changed('shop.reviews', row['id'], status='rejected'),
      *_PENDING,
      *paths.filters(t.fill('Nickname', row['nickname']), opened=True),
      t.link(row['title']),
      t.choose('Status', 'Not Approved'),
      t.button('Save Review'),
  )


def _average(db: t.Db, k: int) -> t.Task:
  row = paths.row_named(
      db,
      k,
      "SELECT p.name, printf('%.2f', avg(r.stars)) AS average FROM products"
      " p JOIN reviews r ON r.product_id = p.id WHERE r.status = 'approved'"
      ' GROUP BY p.id HAVING count(*) >= 7 AND'
      # Nothing that could be rounded up or down.
      ' sum(r.stars) * 200 % (2 * count(*)) != count(*) ORDER BY p.id',
  )
  return seek(
      'Which average rating do the approved reviews of'
      f' "{row["name"]}" come to? Answer with the number, rounded to two'
      ' decimals.',
      Number(row['average']),
      *paths.menu('Reports', 'Product Reviews'),
      paths.search(row['name']),
  )


TEMPLATES = (
    t.Template('admin/reviews-of-month', t.SEEK, _of_month, 5, (248,)),
    t.Template('admin/approve-reviews', t.CHANGE, _approve, 4, (243,)),
    t.Template('admin/unhappiest-customer', t.SEEK, _unhappiest, 5, (244,)),
    t.Template('admin/unhappy-nicknames', t.SEEK, _unhappy, 5, (245,)),
    t.Template('admin/delete-reviews', t.CHANGE, _delete, 4, (246,)),
    t.Template('admin/one-star-review', t.SEEK, _dislike, 5, (249,)),
    t.Template('admin/five-star-review', t.SEEK, _like, 5, (250,)),
    t.Template('admin/reject-review', t.CHANGE, _reject, 5),
    t.Template('admin/reviews-by-status', t.SEEK, _of_status, 5, (277,)),
    t.Template('admin/reviews-with-term', t.SEEK, _with_term, 5, (288,)),
    t.Template('admin/average-rating', t.SEEK, _average, 5),
)
