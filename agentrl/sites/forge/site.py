"""The forge: its routes."""

import pathlib

from agentrl.sites.forge.pages import (
    account,
    code,
    dashboard,
    groups,
    issues,
    members,
    merges,
    people,
    planning,
    projects,
    show,
)
from agentrl.sites.site import Route, Site, form

_NAME = '[A-Za-z0-9_][A-Za-z0-9_.-]*'
_SPACE = f'/{{space:{_NAME}}}'
_PROJECT = f'{_SPACE}/{{project:{_NAME}}}'
_IN = f'{_PROJECT}/-'
_GROUP = f'/groups{_SPACE}'
_USER = f'/users{_SPACE}'
_BRANCH = f'{{branch:{_NAME}}}'
# More digits are no id of SQLite's.
_ID = '{id:[0-9]{1,9}}'
_NUMBER = '{number:[0-9]{1,9}}'
_ISSUE = f'{_IN}/issues/{_NUMBER}'
_MERGE = f'{_IN}/merge_requests/{_NUMBER}'
_PATH = '{path:.+}'
_COMMENT = f'{_IN}/comments/{_ID}'
_KEY = f'/-/profile/keys/{_ID}'
_LABEL = f'{_IN}/labels/{_ID}'


def _members(at: str) -> tuple[Route, ...]:
  """Routes of the members of a project or of a group."""
  return (
      ('GET', at, members.listing),
      ('GET', f'{at}/invite', members.invite_form),
      ('POST', at, members.invite),
      *form(f'{at}/{_ID}/edit', members.edit, members.save),
      *form(f'{at}/{_ID}/remove', members.ask_remove, members.remove),
  )


SITE = Site(
    name='forge',
    title='Anvil',
    store='forge',
    user=1,
    account='emma',
    routes=(
        ('GET', '/', projects.mine),
        ('GET', '/dashboard/projects', projects.mine),
        ('GET', '/dashboard/projects/personal', projects.personal),
        ('GET', '/dashboard/projects/starred', projects.starred),
        ('GET', '/dashboard/groups', groups.listing),
        ('GET', '/dashboard/issues', dashboard.issues),
        ('GET', '/dashboard/merge_requests', dashboard.merge_requests),
        ('GET', '/dashboard/todos', dashboard.todos),
        ('POST', f'/dashboard/todos/{_ID}', dashboard.set_todo),
        ('GET', '/explore', projects.explore),
        ('GET', '/explore/projects/starred', projects.explore_starred),
        ('GET', '/explore/groups', groups.listing),
        ('GET', '/search', dashboard.search),
        *form('/-/profile', account.profile, account.save_profile),
        ('POST', '/-/profile/status', account.save_status),
        ('GET', '/-/profile/preferences', account.preferences),
        ('POST', '/-/profile/preferences', account.save_preferences),
        *form('/-/profile/keys', account.keys, account.add_key),
        *form(f'{_KEY}/remove', account.ask_remove_key, account.remove_key),
        ('GET', '/-/profile/personal_access_tokens', account.tokens),
        ('POST', '/-/profile/personal_access_tokens', account.add_token),
        (
            'POST',
            f'/-/profile/personal_access_tokens/{_ID}/revoke',
            account.revoke_token,
        ),
        ('GET', '/projects/new', projects.new),
        ('GET', '/projects/new/blank', projects.new_blank),
        ('GET', '/projects/new/template', projects.new_from_template),
        ('POST', '/projects', projects.create),
        ('GET', '/groups/new', groups.new),
        ('POST', '/groups', groups.create),
        *_members(f'{_GROUP}/-/group_members'),
        ('GET', f'{_GROUP}/-/issues', groups.issues),
        *form(f'{_GROUP}/-/edit', groups.edit, groups.save),
        ('GET', f'{_USER}/projects', people.projects),
        ('GET', f'{_USER}/starred', people.starred),
        ('GET', f'{_USER}/followers', people.followers),
        ('GET', f'{_USER}/following', people.following),
        ('POST', f'{_USER}/follow', people.follow),
        ('POST', f'{_USER}/unfollow', people.unfollow),
        ('GET', _SPACE, groups.space),
        ('GET', _PROJECT, projects.show),
        *form(f'{_PROJECT}/edit', projects.settings, projects.save),
        ('POST', f'{_PROJECT}/delete', projects.delete),
        ('POST', f'{_IN}/star', projects.star),
        ('POST', f'{_IN}/unstar', projects.unstar),
        ('GET', f'{_IN}/starrers', projects.starrers),
        ('GET', f'{_IN}/forks', projects.forks),
        ('GET', f'{_IN}/forks/new', projects.new_fork),
        ('POST', f'{_IN}/forks', projects.create_fork),
        *_members(f'{_IN}/project_members'),
        ('GET', f'{_IN}/tree/{_BRANCH}', code.tree),
        ('GET', f'{_IN}/tree/{_BRANCH}/{_PATH}', code.tree),
        ('GET', f'{_IN}/blob/{_BRANCH}/{_PATH}', code.blob),
        *form(f'{_IN}/edit/{_BRANCH}/{_PATH}', code.edit_file, code.save_file),
        *form(f'{_IN}/new/{_BRANCH}', code.new_file, code.save_file),
        ('GET', f'{_IN}/commits/{_BRANCH}', code.commits),
        ('GET', f'{_IN}/commit/{{sha:[0-9a-f]{{8,40}}}}', code.commit),
        ('GET', f'{_IN}/graphs/{_BRANCH}', code.contributors),
        ('GET', f'{_IN}/branches', code.branches),
        ('GET', f'{_IN}/branches/new', code.new_branch),
        ('POST', f'{_IN}/branches', code.create_branch),
        ('POST', f'{_IN}/branches/{_BRANCH}/delete', code.delete_branch),
        ('GET', f'{_IN}/issues', issues.listing),
        ('GET', f'{_IN}/issues/new', issues.new),
        ('POST', f'{_IN}/issues', issues.create),
        ('GET', _ISSUE, issues.show),
        *form(f'{_ISSUE}/edit', issues.edit, issues.save),
        ('POST', f'{_ISSUE}/state', issues.set_state),
        ('POST', f'{_ISSUE}/sidebar', issues.set_sidebar),
        ('POST', f'{_ISSUE}/comment', issues.comment),
        ('POST', f'{_ISSUE}/todo', issues.add_todo),
        *form(f'{_COMMENT}/edit', issues.edit_comment, issues.save_comment),
        ('POST', f'{_COMMENT}/delete', issues.delete_comment),
        ('GET', f'{_IN}/merge_requests', merges.listing),
        ('GET', f'{_IN}/merge_requests/new', merges.new),
        ('POST', f'{_IN}/merge_requests', merges.create),
        ('GET', _MERGE, merges.show),
        ('GET', f'{_MERGE}/commits', merges.commits),
        *form(f'{_MERGE}/edit', merges.edit, merges.save),
        ('POST', f'{_MERGE}/sidebar', merges.set_sidebar),
        ('POST', f'{_MERGE}/state', merges.set_state),
        ('POST', f'{_MERGE}/merge', merges.merge),
        ('POST', f'{_MERGE}/approve', merges.approve),
        ('POST', f'{_MERGE}/revoke', merges.revoke),
        ('POST', f'{_MERGE}/comment', merges.comment),
        ('POST', f'{_MERGE}/todo', merges.add_todo),
        ('GET', f'{_IN}/labels', planning.labels),
        ('GET', f'{_IN}/labels/new', planning.new_label),
        ('POST', f'{_IN}/labels', planning.create_label),
        *form(f'{_LABEL}/edit', planning.edit_label, planning.save_label),
        ('POST', f'{_LABEL}/delete', planning.delete_label),
        ('GET', f'{_IN}/milestones', planning.milestones),
        ('GET', f'{_IN}/milestones/new', planning.new_milestone),
        ('POST', f'{_IN}/milestones', planning.create_milestone),
        ('GET', f'{_IN}/milestones/{_ID}', planning.milestone),
        ('GET', f'{_IN}/milestones/{_ID}/edit', planning.edit_milestone),
        ('POST', f'{_IN}/milestones/{_ID}/edit', planning.save_milestone),
        ('POST', f'{_IN}/milestones/{_ID}/state', planning.set_milestone_state),
    ),
    folder=pathlib.Path(__file__).parent,
    common=dashboard.common,
    filters={
        'day': show.day,
        'when': show.when,
        'sha': show.sha,
        'role': show.role,
        'many': show.many,
        'ssh': show.ssh,
        'https': show.https,
        'blocks': show.blocks,
    },
)
