"""The visitor's account: profile, preferences, keys, tokens."""

import re

from agentrl.sites.forge.pages import access, show
from agentrl.sites.site import Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

LEVELS = ('disabled', 'participating', 'mention', 'watch')
SCOPES = ('api', 'read_api', 'read_user', 'read_repository', 'write_repository')
_FIELDS = ('pronouns', 'job_title', 'organization', 'location', 'bio')
_KEY = re.compile(r'(ssh-ed25519|ssh-rsa|ecdsa-sha2-\S+) [A-Za-z0-9+/=]{20,}.*')


def profile(_: Visit) -> Page:
  """The form of the profile, and that of the status."""
  return Page('account_profile.html')


def save_profile(visit: Visit) -> Redirect:
  """Takes the form of the profile."""
  website = visit.text('website_url', most=200, needed=False)
  if website and not re.match(r'https?://\S+$', website):
    raise Wrong('Website url must be an address such as https://site.example.')
  visit.update(
      'users',
      visit.user_id,
      name=visit.text('full_name', most=100),
      website=website,
      **{name: visit.text(name, most=500, needed=False) for name in _FIELDS},
  )
  return Redirect('/-/profile', 'Profile was updated.')


def save_status(visit: Visit) -> Redirect:
  """Takes the form of the status."""
  visit.update(
      'users',
      visit.user_id,
      status=visit.text('your_status', most=100, needed=False),
      is_busy=int('busy' in visit.form),
  )
  return Redirect('/-/profile', 'Status was updated.')


def preferences(_: Visit) -> Page:
  """The form of the preferences."""
  return Page.of('account_preferences.html', levels=LEVELS)


def save_preferences(visit: Visit) -> Redirect:
  """Takes the form of the preferences."""
  theme, level = visit.text('theme'), visit.text('notification_level')
  if theme not in ('light', 'dark') or level not in LEVELS:
    raise Wrong('Theme or notification level is not one of those listed.')
  visit.update('users', visit.user_id, theme=theme, notification_level=level)
  return Redirect('/-/profile/preferences', 'Preferences were saved.')


def keys(visit: Visit) -> Page:
  """The visitor's SSH keys, and a form for another one."""
  rows = visit.rows('ssh_keys', 'title', user_id=visit.user)
  return Page.of('account_keys.html', keys=rows)


def add_key(visit: Visit) -> Redirect:
  """Adds an SSH key."""
  key = visit.text('key')
  if not _KEY.fullmatch(key):
    raise Wrong('Key must begin with its type, such as ssh-ed25519.')
  if visit.has('ssh_keys', key=key):
    raise Wrong('Key has already been taken.')
  visit.insert(
      'ssh_keys',
      user_id=visit.user,
      title=visit.text('title', most=100),
      key=key,
      expires_on=access.date(visit, 'expiration_date'),
      created_at=NOW,
  )
  return Redirect('/-/profile/keys', 'The key was added.')


def ask_remove_key(visit: Visit) -> Page:
  """Asks before an SSH key is removed."""
  return Page.of('account_key.html', key=_own(visit, 'ssh_keys'))


def remove_key(visit: Visit) -> Redirect:
  """Removes an SSH key."""
  key = _own(visit, 'ssh_keys')
  visit.delete('ssh_keys', id=key['id'])
  return Redirect('/-/profile/keys', 'The key was removed.')


def tokens(visit: Visit) -> Page:
  """Access tokens, a form for another one, and the fixed tokens."""
  return Page.of(
      'account_tokens.html',
      tokens=visit.rows('access_tokens', 'name, id', user_id=visit.user),
      fixed=visit.find('account_tokens', user_id=visit.user),
      scopes=SCOPES,
  )


def add_token(visit: Visit) -> Redirect:
  """Adds an access token; the next page shows it once."""
  chosen = visit.form.getall('scopes', [])
  if not chosen or any(x not in SCOPES for x in chosen):
    raise Wrong('Select at least one scope of those listed.')
  key = visit.insert(
      'access_tokens',
      user_id=visit.user,
      name=visit.text('token_name', most=100),
      scopes=', '.join(x for x in SCOPES if x in chosen),
      expires_on=access.date(visit, 'expiration_date'),
      created_at=NOW,
  )
  secret = show.secret('access_tokens', key)
  return Redirect(
      '/-/profile/personal_access_tokens',
      f'Your new token is {secret}. It is not shown again.',
  )


def revoke_token(visit: Visit) -> Redirect:
  """Removes an access token."""
  token = _own(visit, 'access_tokens')
  visit.delete('access_tokens', id=token['id'])
  return Redirect('/-/profile/personal_access_tokens', 'The token was revoked.')


def _own(visit: Visit, table: str):
  return visit.find(table, id=visit.match['id'], user_id=visit.user)
