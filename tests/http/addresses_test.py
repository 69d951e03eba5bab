"""Tests for agentrl.http.addresses."""

import pytest

from agentrl.http import addresses


@pytest.mark.parametrize(
    'host, url',
    [
        ('127.0.0.1', 'http://127.0.0.1:80'),
        ('node-3', 'http://node-3:80'),
        ('::1', 'http://[::1]:80'),
        ('fe80::1%eth0', 'http://[fe80::1%eth0]:80'),
    ],
)
def test_an_ipv6_address_has_brackets(host, url):
  assert addresses.base_url(host, 80) == url
