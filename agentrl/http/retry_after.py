"""The Retry-After header (RFC 9110, section 10.2.3)."""

import datetime
import email.utils
import re

_SECONDS = re.compile(r'\d{1,9}(\.\d{0,9})?', re.ASCII)


def parse(value: str | None, now: datetime.datetime) -> float | None:
  """Seconds to wait, at least 0; None without a readable header.

  Args:
    value: of the header: seconds (some servers write fractions) or an HTTP date.
    now: the time, with its zone.
  """
  if value is None:
    return None
  if _SECONDS.fullmatch(value.strip()):
    return float(value)
  try:
    moment = email.utils.parsedate_to_datetime(value)
    if moment.tzinfo is None:  # "-0000": UTC, of an unknown place
      moment = moment.replace(tzinfo=datetime.UTC)
    return max((moment - now).total_seconds(), 0.0)
  except (ValueError, OverflowError):
    return None
