"""The forum: its routes, and what all its pages show."""

import pathlib
from collections.abc import Mapping
from typing import Any

from agentrl.sites.forum.pages import (
    comments,
    forums,
    lists,
    messages,
    search,
    show,
    submissions,
    users,
)
from agentrl.sites.site import Site, Visit, form

_SORT = '{sort:' + '|'.join(lists.SORTS) + '}'
_OF = '{of:all|subscribed|moderated}'
# More digits are no id of SQLite's.
_ID = '{id:[0-9]{1,9}}'
_THREAD = '/f/{forum}/' + _ID


def _common(visit: Visit) -> Mapping[str, Any]:
  if visit.user is None:
    return {}
  return {
      'me': visit.one('SELECT * FROM users WHERE id = ?', visit.user),
      'here': visit.path,
  }


SITE = Site(
    name='forum',
    title='Commonroom',
    store='forum',
    user=1,
    account='emma',
    routes=(
        ('GET', '/', lists.front),
        ('GET', f'/{_SORT}', lists.front),
        ('GET', f'/{_OF}', lists.front),
        ('GET', f'/{_OF}/{_SORT}', lists.front),
        ('GET', '/comments', lists.comments),
        ('GET', '/f/{forum}', lists.forum),
        ('GET', '/f/{forum}/' + _SORT, lists.forum),
        ('GET', '/f/{forum}/comments', lists.comments),
        ('GET', '/forums', forums.table),
        *form('/create_forum', forums.new, forums.create),
        *form('/f/{forum}/edit', forums.edit, forums.update),
        ('POST', '/f/{forum}/subscribe', forums.subscribe),
        ('POST', '/f/{forum}/unsubscribe', forums.unsubscribe),
        ('GET', _THREAD, submissions.thread),
        ('GET', _THREAD + '/{slug}', submissions.thread),
        ('GET', _THREAD + '/{slug}/comment/{key:[0-9]{1,9}}', comments.one),
        ('GET', '/submit', submissions.new),
        ('GET', '/submit/{forum}', submissions.new),
        ('POST', '/submit', submissions.create),
        *form(f'/submission/{_ID}/edit', submissions.edit, submissions.update),
        ('GET', f'/submission/{_ID}/delete', submissions.ask_delete),
        ('POST', f'/submission/{_ID}/delete', submissions.delete),
        ('POST', f'/submission/{_ID}/vote', submissions.vote),
        ('POST', f'/submission/{_ID}/bookmark', submissions.bookmark),
        ('POST', f'/submission/{_ID}/moderate', submissions.moderate),
        ('POST', f'/submission/{_ID}/comment', comments.create),
        *form(f'/comment/{_ID}/edit', comments.edit, comments.update),
        *form(f'/comment/{_ID}/delete', comments.ask_delete, comments.delete),
        ('POST', f'/comment/{_ID}/vote', comments.vote),
        ('GET', '/user/{name}', users.profile),
        ('GET', '/user/{name}/submissions', users.submissions),
        ('GET', '/user/{name}/comments', users.comments),
        ('GET', '/user/{name}/edit_biography', users.edit_biography),
        ('POST', '/user/{name}/edit_biography', users.update_biography),
        ('GET', '/user/{name}/preferences', users.preferences),
        ('POST', '/user/{name}/preferences', users.update_preferences),
        ('GET', '/user/{name}/bookmarks', users.bookmarks),
        ('GET', '/user/{name}/block_list', users.block_list),
        *form('/user/{name}/block_user', users.ask_block, users.block),
        ('POST', '/user/{name}/unblock_user', users.unblock),
        *form('/user/{name}/compose_message', messages.compose, messages.send),
        ('GET', '/messages', messages.inbox),
        *form(f'/messages/{_ID}', messages.thread, messages.reply),
        ('GET', '/inbox', messages.replies),
        ('GET', '/search', search.results),
    ),
    folder=pathlib.Path(__file__).parent,
    common=_common,
    filters={
        'when': show.when,
        'day': show.day,
        'host': show.host,
        'path': show.path,
        'paragraphs': show.paragraphs,
    },
)
