"""Hand-made episodes of all four sites, and what each is worth.

An episode is a detour over the sites' own pages (HTTP, no browser), the rows of
its task's goal, the page where it ends and its last command. It is right if a
person would say that the objective was reached and nothing else was left
changed: with a harmless detour, in other words, at another address of the same
page. All others are wrong: near misses, and things left behind.

    python -m tests.envs.webarena.episodes

prints a table of the verdicts by kind.
"""

import asyncio
import collections
import dataclasses
import html.parser
import re
import sqlite3

import aiohttp

from agentrl.envs.web import commands
from agentrl.envs.webarena.server import COOKIE, Server
from agentrl.sites import goals, table
from agentrl.sites.admin.site import SITE as ADMIN
from agentrl.sites.forge.pages.show import ROLES
from agentrl.sites.forge.site import SITE as FORGE
from agentrl.sites.forum.site import SITE as FORUM
from agentrl.sites.goals import Outcome
from agentrl.sites.records import build_stores
from agentrl.sites.shop.site import SITE as SHOP
from agentrl.sites.state import Faults, Request, State
from agentrl.sites.store import NOW

STORES = build_stores()
SEEDS = {name: store.copy() for name, store in STORES.items()}
KINDS = {
    'detour': 'right, after something that was undone',
    'words': 'right answer in other words',
    'place': 'right page at another address',
    'command': 'right, `stop` without brackets',
    'leftover': 'something else was left changed',
    'near': 'wrong answer that is near',
    'elsewhere': 'wrong page that is near',
}
RIGHT = ('detour', 'words', 'place', 'command')


def one(store, sql, *values):
  """The first column of the first row in the seed."""
  return SEEDS[store].execute(sql, values).fetchone()[0]


def save(path, **changed):
  """A page's form, sent as it is but for these fields."""
  return 'save', path, changed


def post(path, **form):
  """A form, sent to an address."""
  return 'post', path, form


@dataclasses.dataclass(frozen=True)
class Case:
  """An episode; `said` is its last command, `at` the page where it ends."""

  kind: str
  name: str
  what: str
  does: tuple = ()
  said: str | None = None  # None: the example answer of the goal
  at: str | None = None  # None: the goal's
  k: int = 0

  @property
  def right(self):
    return self.kind in RIGHT


# --- shop: Ella Brandt is customer 1

_WISHES = [
    tuple(row)
    for row in SEEDS['shop'].execute(
        'SELECT id, product_id FROM wishlist_items WHERE customer_id = 1'
        ' ORDER BY id DESC'
    )
]
_WISH, _WISHED = _WISHES[0]
_FREE_PRODUCT = one(
    'shop',
    'SELECT id FROM products WHERE enabled AND id NOT IN (SELECT product_id'
    ' FROM wishlist_items) AND id NOT IN (SELECT product_id FROM options)'
    ' ORDER BY id DESC',
)
_NEW_ADDRESS = dict(
    first_name='Ella', last_name='Brandt', street='1 Slip Road', city='Reno',
    region='Nevada', postcode='89501', phone='775-555-0100',
)  # fmt: skip
_next = lambda store, table: one(
    store, f'SELECT coalesce(max(id), 0) + 1 FROM {table}'
)
_ADDRESS = _next('shop', 'addresses')
_CART, _COMPARED = _next('shop', 'cart_items'), _next('shop', 'compare_items')
SHOP_DETOURS = {
    'account saved as it was': (save('/customer/account/edit'),),
    'address saved as it was': (save('/customer/address/1/edit'),),
    'wish removed and added again': (
        post(f'/wishlist/remove/{_WISH}'),
        post('/wishlist/add', product=_WISHED),
    ),
    'all wishes removed and added the other way round': (
        *(post(f'/wishlist/remove/{key}') for key, _ in _WISHES),
        *(post('/wishlist/add', product=x) for _, x in _WISHES),
    ),
    'compared and taken out': (
        post('/catalog/compare/add', product=_FREE_PRODUCT),
        post(f'/catalog/compare/remove/{_COMPARED}'),
    ),
    'put into the cart and taken out': (
        post('/checkout/cart/add', product=_FREE_PRODUCT, quantity=1),
        post(f'/checkout/cart/remove/{_CART}'),
    ),
    'newsletter ordered and ended': (
        post('/newsletter/manage', subscribed=1),
        post('/newsletter/manage'),
    ),
    'address added and deleted': (
        post('/customer/address/new', **_NEW_ADDRESS),
        post(f'/customer/address/{_ADDRESS}/delete'),
    ),
    'default address changed and changed back': (
        save('/customer/address/2/edit', default_shipping=1),
        save('/customer/address/1/edit', default_shipping=1),
    ),
}
SHOP_LEFT = {
    'a wish removed': (post(f'/wishlist/remove/{_WISH}'),),
    'another wish in its place': (
        post(f'/wishlist/remove/{_WISH}'),
        post('/wishlist/add', product=_FREE_PRODUCT),
    ),
    'something in the cart': (
        post('/checkout/cart/add', product=_FREE_PRODUCT, quantity=1),
    ),
    'a second piece in the cart': (
        post('/checkout/cart/add', product=_FREE_PRODUCT, quantity=1),
        post('/checkout/cart/add', product=_FREE_PRODUCT, quantity=1),
    ),
    'a subscription': (post('/newsletter/manage', subscribed=1),),
    'another default address': (
        save('/customer/address/2/edit', default_shipping=1),
    ),
    'another street': (
        save('/customer/address/1/edit', street='2 Slip Road'),
    ),
    'addresses that have swapped places': (
        *(
            save(f'/customer/address/{a}/edit', **{
                name: one('shop', f'SELECT {name} FROM addresses WHERE id = {b}')
                for name in _NEW_ADDRESS
            })
            for a, b in ((1, 2), (2, 1))
        ),
    ),
}  # fmt: skip

# --- administration

_PENDING = one(
    'shop', "SELECT min(id) FROM orders WHERE status = 'pending' AND id > 1260"
)
_RULE = one('shop', 'SELECT max(id) FROM price_rules')
_WAITING = one('shop', "SELECT max(id) FROM reviews WHERE status = 'pending'")
_OPTION_OF = one('shop', 'SELECT max(product_id) FROM options')
_OPTION = _next('shop', 'options')
_ORDER = f'/sales/order/view/{_PENDING}'
_NEW_RULE = dict(name='Slip', code='SLIP', kind='percent', amount='5')
ADMIN_DETOURS = {
    'product saved as it was': (save('/catalog/product/edit/7'),),
    'page saved as it was': (save('/cms/page/edit/2'),),
    'price rule saved as it was': (
        save(f'/sales_rule/promo_quote/edit/{_RULE}'),
    ),
    'customer saved as it was': (save('/customer/index/edit/9'),),
    'review saved as it was': (save(f'/review/product/edit/{_WAITING}'),),
    'order address saved as it was': (save(f'{_ORDER}/address'),),
    'another order held and released': (
        post(f'{_ORDER}/hold'),
        post(f'{_ORDER}/unhold'),
    ),
    'products disabled and enabled': (
        post('/catalog/product/', action='disable', ids=['7', '9']),
        post('/catalog/product/', action='enable', ids=['7', '9']),
    ),
    'option added and removed': (
        post(
            f'/catalog/product/edit/{_OPTION_OF}/options',
            option=one(
                'shop',
                'SELECT name FROM options WHERE product_id = ?',
                _OPTION_OF,
            ),
            value='Slip',
        ),
        post(f'/catalog/product/edit/{_OPTION_OF}/options/{_OPTION}/remove'),
    ),
    'review approved and set back': (
        save(f'/review/product/edit/{_WAITING}', status='approved'),
        save(f'/review/product/edit/{_WAITING}', status='pending'),
    ),
    'price changed and changed back': (
        save('/catalog/product/edit/7', price='999.00', special_price=''),
        save(
            '/catalog/product/edit/7',
            price='{:.2f}'.format(
                one(
                    'shop',
                    'SELECT coalesce(list_cents, price_cents) FROM products'
                    ' WHERE id = 7',
                )
                / 100
            ),
            special_price=one(
                'shop',
                "SELECT CASE WHEN list_cents IS NULL THEN '' ELSE"
                " printf('%.2f', price_cents / 100.0) END FROM products"
                ' WHERE id = 7',
            ),
        ),
    ),
}
ADMIN_LEFT = {
    'another order on hold': (post(f'{_ORDER}/hold'),),
    'another order cancelled': (post(f'{_ORDER}/cancel'),),
    'an order comment': (post(f'{_ORDER}/comment', comment='Slip'),),
    'another quantity': (save('/catalog/product/edit/7', quantity='7777'),),
    'a product disabled': (
        post('/catalog/product/', action='disable', ids=['7']),
    ),
    'a review approved': (
        save(f'/review/product/edit/{_WAITING}', status='approved'),
    ),
    'a review deleted': (post(f'/review/product/edit/{_WAITING}/delete'),),
    'another page title': (save('/cms/page/edit/2', title='Slip'),),
    'a price rule': (save('/sales_rule/promo_quote/new', **_NEW_RULE),),
}

# --- forum: emma is user 1

_SUBSCRIBED, _UNSUBSCRIBED = (
    one(
        'forum',
        f'SELECT name FROM forums WHERE id {no} IN (SELECT forum_id FROM'
        ' subscriptions WHERE user_id = 1) ORDER BY id DESC',
    )
    for no in ('', 'NOT')
)
_MINE = one(
    'forum',
    'SELECT max(id) FROM submissions WHERE user_id = 1 AND NOT is_deleted AND'
    ' body IS NOT NULL AND id IN (SELECT submission_id FROM comments)',
)
_COMMENT = one(
    'forum',
    'SELECT max(id) FROM comments WHERE user_id = 1 AND NOT is_deleted',
)
_OTHERS = one(
    'forum',
    'SELECT max(id) FROM submissions WHERE user_id != 1 AND NOT is_deleted AND'
    ' id NOT IN (SELECT submission_id FROM submission_votes) AND id NOT IN'
    ' (SELECT submission_id FROM bookmarks)',
)
_VOTED, _VOTE = (
    SEEDS['forum']
    .execute(
        'SELECT v.submission_id, v.choice FROM submission_votes v JOIN'
        ' submissions s ON s.id = v.submission_id WHERE NOT s.is_deleted ORDER'
        ' BY v.id'
    )
    .fetchone()
)
_MARKED = one(
    'forum',
    'SELECT b.submission_id FROM bookmarks b JOIN submissions s ON s.id ='
    ' b.submission_id WHERE NOT s.is_deleted ORDER BY b.id DESC',
)
_BLOCKED, _NOTE = (
    SEEDS['forum']
    .execute(
        'SELECT u.name, b.note FROM blocks b JOIN users u ON u.id ='
        ' b.blocked_id WHERE b.user_id = 1 ORDER BY b.id LIMIT 1 OFFSET 1'
    )
    .fetchone()
)
_STRANGER = one(
    'forum',
    'SELECT max(name) FROM users WHERE id != 1 AND id NOT IN (SELECT blocked_id'
    ' FROM blocks)',
)
_MODERATED = one(
    'forum',
    'SELECT f.name FROM forums f JOIN moderators m ON m.forum_id = f.id WHERE'
    ' m.user_id = 1',
)
_THREAD = one(
    'forum',
    'SELECT max(s.id) FROM submissions s JOIN moderators m ON m.forum_id ='
    ' s.forum_id WHERE m.user_id = 1 AND NOT is_locked AND NOT is_deleted',
)
_POSTED = _next('forum', 'submissions')
_REPLIED = _next('forum', 'comments')
_SLIP = post('/submit', forum='travel', title='Slip', url='', body='Slip')
FORUM_DETOURS = {
    'subscribed and unsubscribed': (
        post(f'/f/{_UNSUBSCRIBED}/subscribe'),
        post(f'/f/{_UNSUBSCRIBED}/unsubscribe'),
    ),
    'unsubscribed and subscribed again': (
        post(f'/f/{_SUBSCRIBED}/unsubscribe'),
        post(f'/f/{_SUBSCRIBED}/subscribe'),
    ),
    'voted and retracted': (
        post(f'/submission/{_OTHERS}/vote', choice=1),
        post(f'/submission/{_OTHERS}/vote', choice=-1),
        post(f'/submission/{_OTHERS}/vote', choice=0),
    ),
    'a vote retracted and cast again': (
        post(f'/submission/{_VOTED}/vote', choice=0),
        post(f'/submission/{_VOTED}/vote', choice=_VOTE),
    ),
    'bookmarked and not any more': (
        post(f'/submission/{_OTHERS}/bookmark'),
        post(f'/submission/{_OTHERS}/bookmark'),
    ),
    'bookmark removed and set again': (
        post(f'/submission/{_MARKED}/bookmark'),
        post(f'/submission/{_MARKED}/bookmark'),
    ),
    'posted and deleted': (_SLIP, post(f'/submission/{_POSTED}/delete')),
    'two posts, both deleted': (
        _SLIP,
        _SLIP,
        post(f'/submission/{_POSTED}/delete'),
        post(f'/submission/{_POSTED + 1}/delete'),
    ),
    'commented and deleted': (
        post(f'/submission/{_OTHERS}/comment', comment='Slip'),
        post(f'/comment/{_REPLIED}/delete'),
    ),
    'submission edited and edited back': (
        save(f'/submission/{_MINE}/edit', title='Slip'),
        save(
            f'/submission/{_MINE}/edit',
            title=one(
                'forum', 'SELECT title FROM submissions WHERE id = ?', _MINE
            ),
        ),
    ),
    'comment saved as it was': (save(f'/comment/{_COMMENT}/edit'),),
    'blocked and unblocked': (
        post(f'/user/{_STRANGER}/block_user', note=''),
        post(f'/user/{_STRANGER}/unblock_user'),
    ),
    'unblocked and blocked again': (
        post(f'/user/{_BLOCKED}/unblock_user'),
        post(f'/user/{_BLOCKED}/block_user', note=_NOTE or ''),
    ),
    'preferences saved as they were': (save('/user/emma/preferences'),),
    'biography saved as it was': (save('/user/emma/edit_biography'),),
    'forum saved as it was': (save(f'/f/{_MODERATED}/edit'),),
    'locked and unlocked': (
        post(f'/submission/{_THREAD}/moderate', action='lock'),
        post(f'/submission/{_THREAD}/moderate', action='unlock'),
    ),
}
FORUM_LEFT = {
    'a subscription less': (post(f'/f/{_SUBSCRIBED}/unsubscribe'),),
    'another subscription in its place': (
        post(f'/f/{_SUBSCRIBED}/unsubscribe'),
        post(f'/f/{_UNSUBSCRIBED}/subscribe'),
    ),
    'another vote': (
        post(f'/submission/{_VOTED}/vote', choice=0),
        post(f'/submission/{_VOTED}/vote', choice=-_VOTE),
    ),
    'a vote': (post(f'/submission/{_OTHERS}/vote', choice=1),),
    'a bookmark': (post(f'/submission/{_OTHERS}/bookmark'),),
    'a post': (_SLIP,),
    'two posts of which one is deleted': (
        _SLIP,
        _SLIP,
        post(f'/submission/{_POSTED}/delete'),
    ),
    'a deleted post': (post(f'/submission/{_MINE}/delete'),),
    'a post that lost its comments': (
        post(f'/submission/{_MINE}/delete'),
        post('/submit', **{
            name: one('forum', f'SELECT {sql} FROM posts WHERE id = {_MINE}')
            for name, sql in (
                ('forum', 'forum'), ('title', 'title'), ('body', 'body'),
                ('url', "coalesce(url, '')"),
            )
        }),
    ),
    'a deleted comment': (post(f'/comment/{_COMMENT}/delete'),),
    'blocked with another note': (
        post(f'/user/{_BLOCKED}/unblock_user'),
        post(f'/user/{_BLOCKED}/block_user', note='slip'),
    ),
    'a locked submission': (
        post(f'/submission/{_THREAD}/moderate', action='lock'),
    ),
}  # fmt: skip

# --- forge: emma is user 1

_PROJECT = one(
    'forge', "SELECT full_path FROM paths WHERE full_path = 'emma/trail-maps'"
)
_PROJECT_ID = one('forge', 'SELECT id FROM paths WHERE full_path = ?', _PROJECT)
_IN = f'/{_PROJECT}/-'
_ISSUE, _ISSUE_ID = (
    SEEDS['forge']
    .execute(
        'SELECT number, id FROM issues WHERE project_id = ? AND state ='
        " 'opened' AND id NOT IN (SELECT issue_id FROM issue_labels)",
        (_PROJECT_ID,),
    )
    .fetchone()
)
_LABEL, _LABEL_ID = (
    SEEDS['forge']
    .execute('SELECT name, id FROM labels WHERE project_id = ?', (_PROJECT_ID,))
    .fetchone()
)
_MILESTONE = one(
    'forge', 'SELECT id FROM milestones WHERE project_id = ?', _PROJECT_ID
)
_STARRED, _UNSTARRED = (
    one(
        'forge',
        f"SELECT full_path FROM paths WHERE visibility = 'public' AND id {no}"
        ' IN (SELECT project_id FROM stars WHERE user_id = 1) ORDER BY id DESC',
    )
    for no in ('', 'NOT')
)
_FOLLOWED, _UNFOLLOWED = (
    one(
        'forge',
        f'SELECT username FROM users WHERE id != 1 AND id {no} IN (SELECT'
        ' followed_id FROM follows WHERE user_id = 1) ORDER BY id DESC',
    )
    for no in ('', 'NOT')
)
_MEMBER, _MEMBER_NAME, _ROLE, _EXPIRES = (
    SEEDS['forge']
    .execute(
        'SELECT m.id, u.username, m.role, m.expires_on FROM members m JOIN'
        ' users u ON u.id = m.user_id WHERE m.project_id = ? AND u.id != 1',
        (_PROJECT_ID,),
    )
    .fetchone()
)
_TODO = one(
    'forge', "SELECT max(id) FROM todos WHERE user_id = 1 AND state = 'pending'"
)
_MERGE = one(
    'forge',
    'SELECT number FROM merge_requests WHERE project_id = ? AND state ='
    " 'opened'",
    _PROJECT_ID,
)
_INVITE = dict(
    username=_MEMBER_NAME, role=ROLES[_ROLE], expiration_date=_EXPIRES or ''
)
_AT = f'{_IN}/issues/{_ISSUE}'
FORGE_DETOURS = {
    'another issue closed and reopened': (
        post(f'{_AT}/state', state='closed'),
        post(f'{_AT}/state', state='opened'),
    ),
    'merge request closed and reopened': (
        post(f'{_IN}/merge_requests/{_MERGE}/state', state='closed'),
        post(f'{_IN}/merge_requests/{_MERGE}/state', state='opened'),
    ),
    'starred and unstarred': (
        post(f'/{_UNSTARRED}/-/star'),
        post(f'/{_UNSTARRED}/-/unstar'),
    ),
    'unstarred and starred again': (
        post(f'/{_STARRED}/-/unstar'),
        post(f'/{_STARRED}/-/star'),
    ),
    'followed and unfollowed': (
        post(f'/users/{_UNFOLLOWED}/follow'),
        post(f'/users/{_UNFOLLOWED}/unfollow'),
    ),
    'unfollowed and followed again': (
        post(f'/users/{_FOLLOWED}/unfollow'),
        post(f'/users/{_FOLLOWED}/follow'),
    ),
    'profile saved as it was': (save('/-/profile'),),
    'project saved as it was': (save(f'/{_PROJECT}/edit'),),
    'issue saved as it was': (save(f'{_AT}/edit'),),
    'merge request saved as it was': (
        save(f'{_IN}/merge_requests/{_MERGE}/edit'),
    ),
    'milestone saved as it was': (save(f'{_IN}/milestones/{_MILESTONE}/edit'),),
    'label saved as it was': (save(f'{_IN}/labels/{_LABEL_ID}/edit'),),
    'commented and deleted': (
        post(f'{_AT}/comment', comment='Slip'),
        post(f'{_IN}/comments/{_next("forge", "comments")}/delete'),
    ),
    'label made and deleted': (
        post(f'{_IN}/labels', title='slip', background_color='#336699'),
        post(f'{_IN}/labels/{_next("forge", "labels")}/delete'),
    ),
    'label put on an issue and taken off': (
        save(_AT, _action=f'{_AT}/sidebar', labels=_LABEL),
        save(_AT, _action=f'{_AT}/sidebar', labels=[]),
    ),
    'branch made and deleted': (
        post(f'{_IN}/branches', branch_name='slip', create_from='main'),
        post(f'{_IN}/branches/slip/delete'),
    ),
    'token made and revoked': (
        post(
            '/-/profile/personal_access_tokens', token_name='slip', scopes='api'
        ),
        post(
            '/-/profile/personal_access_tokens/'
            f'{_next("forge", "access_tokens")}/revoke'
        ),
    ),
    'member removed and invited again': (
        post(f'{_IN}/project_members/{_MEMBER}/remove'),
        post(f'{_IN}/project_members', **_INVITE),
    ),
    'to-do done and undone': (
        post(f'/dashboard/todos/{_TODO}'),
        post(f'/dashboard/todos/{_TODO}'),
    ),
}
FORGE_LEFT = {
    'another issue closed': (post(f'{_AT}/state', state='closed'),),
    'a comment': (post(f'{_AT}/comment', comment='Slip'),),
    'a star less': (post(f'/{_STARRED}/-/unstar'),),
    'another star in its place': (
        post(f'/{_STARRED}/-/unstar'),
        post(f'/{_UNSTARRED}/-/star'),
    ),
    'a follower less': (post(f'/users/{_FOLLOWED}/unfollow'),),
    'a member less': (post(f'{_IN}/project_members/{_MEMBER}/remove'),),
    'a member in another role': (
        post(f'{_IN}/project_members/{_MEMBER}/remove'),
        post(
            f'{_IN}/project_members',
            **{**_INVITE, 'role': ROLES[10 if _ROLE != 10 else 20]},
        ),
    ),
    'a label': (
        post(f'{_IN}/labels', title='slip', background_color='#336699'),
    ),
    'a branch': (
        post(f'{_IN}/branches', branch_name='slip', create_from='main'),
    ),
    'another description': (
        save(f'/{_PROJECT}/edit', project_description='Slip'),
    ),
    'a to-do done': (post(f'/dashboard/todos/{_TODO}'),),
}

# Site -> a question and a change, among which detours are made.
TASKS = {
    'shop': ('shop/order_total', 'shop/ask_coupon'),
    'admin': ('admin/order-total', 'admin/notify-customer'),
    'forum': ('forum/subscribers', 'forum/message'),
    'forge': ('forge/setting', 'forge/describe-project'),
}
AROUND = {
    'shop': (SHOP_DETOURS, SHOP_LEFT),
    'admin': (ADMIN_DETOURS, ADMIN_LEFT),
    'forum': (FORUM_DETOURS, FORUM_LEFT),
    'forge': (FORGE_DETOURS, FORGE_LEFT),
}
# Task -> how its answer, in braces as the goal has it, may be written, and what
# is wrong.
WORDS = {
    'shop/order_total': (
        ('USD 20.77', '**20.77**', '$20.77 USD', '20.77 US dollars', '20.77$'),
        ('20.78', 'EUR 20.77', '$2077', '-20.77', 'about $20.77'),
    ),
    'shop/rating': (
        ('3.1 stars', '3.1 out of 5', '3.1/5', '**3.1**', '3.1 out of 5 stars'),
        ('3.1 out of 10', '31', '3.2 stars', '3', '1.3 out of 5'),
    ),
    'shop/early_order': (
        ('Monday, June 28, 2021', '2021/06/28', 'Jun. 28, 2021', '28-Jun-2021'),
        ('Sunday, June 28, 2021', '2021/06/29', '28/06/2021', 'June 2021'),
    ),
    'shop/help': (
        ('(888) 555-0146', '888.555.0146', '+1 888 555 0146'),
        ('(888) 555-0147', '555-0146', '888-555-01460'),
    ),
    'shop/order_names': (
        ('- {0}\n- {1}', '1. {1}\n2. {0}', '{0}; and {1}', '**{0}**; **{1}**'),
        ('{0}', '- {0}\n- {0}', '{0}; and {0}', '{0}; {1}; and more'),
    ),
    'shop/price_range': (
        ('{0} - {1}', '{0} to {1}', '1. {0}\n2. {1}', 'USD 17.16; USD 292.86'),
        ('{1} - {0}', '{0}', '2. {1}\n1. {0}', '17.16; 292.85'),
    ),
    'shop/who_gave': (
        ('{0} and {1}', '* {1}\n* {0}', '["{0}", "{1}"]'),
        ('Theo P; Dalia M', 'Theo; Dalia', '{0}'),
    ),
    'admin/five-star-review': (
        ('**Carla V.**', '"Carla V."', 'carla v.'),
        ('Carla V', 'Carla', 'Carla W.'),
    ),
    'admin/order-total': (
        ('USD 84.34', '**$84.34**', '84.34 dollars.'),
        ('84.43', '84', '84.34 EUR'),
    ),
    'admin/top-search-terms': (
        ('1. {0}\n2. {1}\n3. {2}', '{0}, {1}, and {2}'),
        ('1. {1}\n2. {0}\n3. {2}', '{0}, {1}'),
    ),
    'forum/subscribers': (
        ('36 subscribers', '**36**', '36 subscribers.'),
        ('37 subscribers', '36 days', '3 6', '360', 'about 36'),
    ),
    'forum/worst_comment': (
        ('\u221214', '-14 points', 'minus 14'),
        ('14', '14 points', '-15'),
    ),
    'forum/forum_created': (
        ('Friday, July 10, 2020', '2020/07/10', 'July 10th, 2020.'),
        ('Thursday, July 10, 2020', '10/07/2020', 'July 10'),
    ),
    'forum/moderates': (
        ('- {0}\n- {1}', '{0} and {1}', '/f/cycling; and {1}'),
        ('{0}', '- {0}\n- travel', '{0} and {1} and pics'),
    ),
    'forge/commits-on-day': (
        ('{0} commits', '**{0}**', '{0} commits.'),
        ('{0} issues', '1{0} commits', '-{0}', '{0} or 1{0}'),
    ),
    'forge/top-three': (
        ('1. {0}\n2. {1}\n3. {2}', '{0}, {1} and {2}'),
        ('1. {1}\n2. {0}\n3. {2}', '{0} and {1}'),
    ),
    'forge/own-stars': (
        ('- {0}\n- {1}\n- {2}\n- {3}', '{3}; {2}; {1}; and {0}'),
        ('- {0}\n- {1}\n- {2}', '{0}; {1}; {2}; and {2}'),
    ),
}  # fmt: skip
# Task and number -> other addresses of the page it ends on, and near ones.
PLACES = {
    ('shop/search', 0): (
        ('/catalogsearch/result?q=Canvas+SNEAKER',
         '/catalogsearch/result?q=++sneaker+canvas',
         '/catalogsearch/result?q=canvas+sneakers&sort=name'),
        ('/catalogsearch/result?q=sneaker', '/catalogsearch/result/?q=canvas+sneaker',
         '/catalogsearch/result?q=canvas+sneaker&page=2'),
    ),
    ('admin/open-list', 0): (
        ('/customer/index/?sort=email&dir=asc', '/customer/index/?keyword='),
        ('/customer/index', '/customer/index/?keyword=a', '/customer/index/x'),
    ),
    ('forum/newest', 0): (
        ('/f/Travel/new', '/f/TRAVEL/new?page=1'),
        ('/f/travel/new/', '/f/travel/top', '/f/travels/new'),
    ),
    ('forum/search', 0): (
        ('/search?q=Telescope&type=comments&sort=top',
         '/search?q=+TELESCOPE+&type=comments&sort=top'),
        ('/search?q=telescope', '/search?q=telescopes&type=comments&sort=top'),
    ),
    ('forum/comments_of', 0): (
        ('/user/windyumbra/comments',),
        ('/user/WindyUmbra/comments/', '/user/WindyUmbra'),
    ),
    ('forge/open-project', 0): (
        ('/Underhill38/JSON-Explorer',),
        ('/underhill38/json-explorer/', '/underhill38/json-explorers'),
    ),
    ('forge/assigned-merges', 0): (
        ('/dashboard/merge_requests?assignee_username=@Emma',),
        ('/dashboard/merge_requests/?assignee_username=emma',
         '/dashboard/merge_requests?assignee_username=emm'),
    ),
    ('forge/issues-with-label', 0): (
        ('/railyard/platform-board/-/issues?label_name[]=BUG',),
        ('/railyard/platform-board/-/issues?label_name[]=bugs',
         '/railyard/platform-board/-/issues/?label_name[]=bug'),
    ),
}  # fmt: skip


def _cases():
  for site, (detours, left) in AROUND.items():
    # In turn beside a question and beside a change.
    for kind, around in (('detour', detours), ('leftover', left)):
      for place, (what, does) in enumerate(around.items()):
        yield Case(kind, TASKS[site][place % 2], what, does)
    change = TASKS[site][1]
    for said in ('stop', ' stop \n', '```stop```'):
      yield Case('command', change, repr(said), said=said)
  for name, (right, wrong) in WORDS.items():
    for kind, found in (('words', right), ('near', wrong)):
      for said in found:
        yield Case(kind, name, repr(said), said=f'stop [{said}]')
  for (name, k), (right, wrong) in PLACES.items():
    for kind, found in (('place', right), ('elsewhere', wrong)):
      for at in found:
        yield Case(kind, name, at, at=at, k=k)


CASES = tuple(_cases())


class Forms(html.parser.HTMLParser):
  """The forms of a page that are sent by POST: action -> fields."""

  def __init__(self, text):
    super().__init__()
    self.found, self._fields, self._select = {}, None, None
    self._area = None
    self.feed(text)

  def handle_starttag(self, tag, attrs):
    have = dict(attrs)
    if tag == 'form':
      self._fields = []
      if have.get('method', '').lower() == 'post':
        self.found[have.get('action', '')] = self._fields
    if self._fields is None:
      return
    if tag == 'input' and 'name' in have:
      boxed = have.get('type') in ('checkbox', 'radio')
      if not boxed or 'checked' in have:
        value = have.get('value', 'on' if boxed else '')
        self._fields.append((have['name'], value or ''))
    elif tag == 'textarea':
      self._area = [have['name'], '']
    elif tag == 'select':
      self._select = [have['name'], [], 'multiple' in have]
    elif tag == 'option' and self._select:
      self._select[1].append(['selected' in have, have.get('value'), ''])

  def handle_data(self, data):
    if self._area:
      self._area[1] += data
    elif self._select and self._select[1]:
      self._select[1][-1][2] += data

  def handle_endtag(self, tag):
    if tag == 'textarea' and self._area:
      self._fields.append((self._area[0], self._area[1]))
      self._area = None
    elif tag == 'select' and self._select:
      name, options, many = self._select
      chosen = [x for x in options if x[0]] or ([] if many else options[:1])
      for _, value, label in chosen:
        self._fields.append((name, label.strip() if value is None else value))
      self._select = None
    elif tag == 'form':
      self._fields = None


class Player:
  """Plays cases on a server of all sites."""

  def __init__(self):
    self._runner = asyncio.Runner()
    self._server = Server((SHOP, ADMIN, FORUM, FORGE))
    self._runner.run(self._server.start())

  def close(self):
    self._runner.run(self._server.stop())
    self._runner.close()

  def play(self, case):
    """The task's goal, the outcome (None: the last command was refused), the
    last command's text, and the records as the episode left them.
    """
    return self._runner.run(self._play(case))

  async def _play(self, case):
    site, template, k = table.find(table.ids_of(case.name)[case.k])
    goal = template.make(SEEDS, k).goal
    store = 'shop' if site == 'admin' else site
    state = State({store: STORES[store]}, Faults(), 'x')
    key = self._server.open(state)
    try:
      async with aiohttp.ClientSession(
          self._server.urls[site],
          cookies={COOKIE: key},
          cookie_jar=aiohttp.CookieJar(unsafe=True),
      ) as session:
        for step in case.does:
          await _do(session, step)
        db = state.copy(store)
        _reach(db, goal)
        if goal.rows:
          state.requests.append(Request(site, 'POST', '/', 303, True))
        at = case.at or (goal.url or f'http://{site}/').partition(site)[2]
        async with session.get(at) as reply:
          url = f'http://{site}{reply.url.path_qs}'
        example = goal.answer.example() if goal.answer else ''
        items = re.split(r'; ', example)
        said = case.said or f'stop [{example}]'
        for place, item in enumerate(items):
          said = said.replace(f'{{{place}}}', item)
        final = SEEDS[store]
        if db.total_changes:
          final = sqlite3.connect(':memory:')
          final.deserialize(db.serialize())
          final.row_factory = sqlite3.Row
        try:
          text = commands.parse(said).text
        except commands.Refused:
          return goal, None, '', final
        requests = tuple(state.requests)
        outcome = Outcome(text, state.changes(), url, requests)
        return goal, outcome, text, final
    finally:
      self._server.close(key)


async def _do(session, step):
  kind, path, form = step
  if kind == 'save':
    form = dict(form)
    action = form.pop('_action', path)
    async with session.get(path) as reply:
      assert reply.status == 200, (path, reply.status)
      forms = Forms(await reply.text()).found
    fields = next(
        fields for to, fields in forms.items() if (to or path) == action
    )
    fields = [(name, value) for name, value in fields if name not in form]
  else:
    action, fields = path, []
  for name, value in form.items():
    for each in value if isinstance(value, list) else [value]:
      fields.append((name, str(each)))
  async with session.post(action, data=fields, allow_redirects=False) as reply:
    text = await reply.text()
    assert reply.status == 303, (action, reply.status, text[-600:])


def _reach(db, goal):
  """Writes the rows of a goal, as its site would."""
  new = {}
  for row in goal.rows:
    table = row.table.partition('.')[2]
    columns = {x['name']: x for x in db.execute(f'PRAGMA table_info({table})')}
    values = {
        name: (
            new[value.table]
            if isinstance(value, goals.New)
            else 'some words'
            if isinstance(value, goals.Anything)
            else value
        )
        for name, value in row.values.items()
    }
    if row.kind == goals.REMOVED:
      db.execute(f'DELETE FROM {table} WHERE id = ?', (row.key,))
      continue
    stamp = 'created_at' if row.kind == goals.ADDED else 'updated_at'
    for name in (stamp, 'updated_at'):
      if name in columns and (name == stamp or columns[name]['notnull']):
        values[name] = NOW
    if row.kind == goals.CHANGED:
      sets = ', '.join(f'{name} = :{name}' for name in values)
      db.execute(
          f'UPDATE {table} SET {sets} WHERE id = :id', {**values, 'id': row.key}
      )
    else:
      names = ', '.join(values)
      marks = ', '.join(f':{name}' for name in values)
      new[row.table] = db.execute(
          f'INSERT INTO {table} ({names}) VALUES ({marks})', values
      ).lastrowid


def main():
  player = Player()
  right = collections.Counter()
  total = collections.Counter()
  for case in CASES:
    goal, outcome, *_ = player.play(case)
    reached = outcome is not None and goals.reached(goal, outcome)
    total[case.kind] += 1
    right[case.kind] += reached == case.right
  player.close()
  print('| episodes | wanted | number | judged so |\n|---|---|---|---|')
  for kind, words in KINDS.items():
    wanted = 1 if kind in RIGHT else 0
    print(f'| {words} | {wanted} | {total[kind]} | {right[kind]} |')
  print(f'| all | | {total.total()} | {right.total()} |')


if __name__ == '__main__':
  main()
