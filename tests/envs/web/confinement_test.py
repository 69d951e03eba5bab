"""Nothing leaves for what is not allowed, whatever a page tries.

A second server, on another port of the same machine, must see no connection and
no datagram. The same attempts without the browser's flags show that they hit.
"""

import asyncio
import dataclasses
import time

import pytest
from aiohttp import web

from agentrl.envs.web.browser import Browser
from agentrl.envs.web.hosts import Hosts
from agentrl.errors import EnvError
from tests.envs.web import sites

pytestmark = pytest.mark.browser

# What a click on a page does; {o} is the outside's host and port. Paths are the
# attempts' names.
SCRIPTS = {
    'navigation': 'location = "http://{o}/navigation"',
    'redirect': 'location = "/to/redirect"',
    'redirected-fetch': 'fetch("/to/redirected-fetch", {mode: "no-cors"})',
    'redirected-image': 'new Image().src = "/to/redirected-image"',
    'javascript': 'location = `javascript:void fetch("http://{o}/javascript")`',
    'fetch': 'fetch("http://{o}/fetch", {mode: "no-cors"})',
    'keepalive': 'fetch("http://{o}/keepalive", {mode: "no-cors", keepalive: 1})',
    'request': 'x = new XMLHttpRequest(); x.open("GET", "http://{o}/request");'
    ' x.send()',
    'image': 'new Image().src = "http://{o}/image"',
    'script': 'add("script", {src: "http://{o}/script"})',
    'module': 'import("http://{o}/module").catch(() => 0)',
    'frame': 'add("iframe", {src: "http://{o}/frame"})',
    'object': 'add("object", {data: "http://{o}/object"})',
    'media': 'add("video", {src: "http://{o}/media"}).load()',
    'popup': 'window.open("http://{o}/popup")',
    'blank': 'add("a", {href: "http://{o}/blank", target: "_blank"}).click()',
    'ping': 'add("a", {href: "#", ping: "http://{o}/ping"}).click()',
    'form': 'add("form", {action: "http://{o}/form", method: "post"}).submit()',
    'beacon': 'navigator.sendBeacon("http://{o}/beacon")',
    'websocket': 'new WebSocket("ws://{o}/websocket")',
    'eventsource': 'new EventSource("http://{o}/eventsource")',
    'worker': 'new Worker(URL.createObjectURL(new Blob([`fetch('
    '"http://{o}/worker", {mode: "no-cors"})`])))',
    'shared-worker': 'new SharedWorker(URL.createObjectURL(new Blob([`fetch('
    '"http://{o}/shared-worker", {mode: "no-cors"})`])))',
    'service-worker': 'navigator.serviceWorker.register("/worker.js")',
    'prefetch': 'add("link", {rel: "prefetch", href: "http://{o}/prefetch"})',
    'preload': 'add("link", {rel: "preload", as: "image",'
    ' href: "http://{o}/preload"})',
    'preconnect': 'add("link", {rel: "preconnect", href: "http://{o}"})',
    'speculation': 'add("script", {type: "speculationrules", textContent:'
    ' JSON.stringify({prefetch: [{urls: ["http://{o}/speculation"],'
    ' eagerness: "immediate"}]})})',
    'css-import': 'add("style", {textContent: "@import url(http://{o}/css-import)"})',
    'font': 'add("style", {textContent: "@font-face {font-family: f;'
    ' src: url(http://{o}/font)} * {font-family: f}"})',
    'favicon': 'add("link", {rel: "icon", href: "http://{o}/favicon"})',
    'localhost': 'fetch("http://localhost:{p}/localhost", {mode: "no-cors"})',
    'other-name': 'fetch("http://outside.test:{p}/other-name",'
    ' {mode: "no-cors"})',
    'data': 'location = `data:text/html,<img src="http://{o}/data">`',
    'data-frame': 'add("iframe",'
    ' {src: `data:text/html,<img src="http://{o}/data-frame">`})',
    'blob': 'location = URL.createObjectURL(new Blob(['
    '`<img src="http://{o}/blob">`], {type: "text/html"}))',
    'srcdoc': 'add("iframe", {srcdoc: `<img src="http://{o}/srcdoc">`})',
    'file': 'location = "file:///etc/passwd"',
    'file-frame': 'add("iframe", {src: "file:///etc/passwd"})',
    'file-window': 'window.open("file:///etc/passwd")',
    'download': 'add("a", {href: "http://{o}/download", download: "x"}).click()',
    'refresh': 'add("meta", {httpEquiv: "refresh",'
    ' content: "0; url=http://{o}/refresh"})',
    'webtransport': 'new WebTransport("https://{o}/webtransport")',
    'stun': 'rtc("stun:{o}")',
    'turn': 'rtc("turn:{o}?transport=udp")',
    'turn-tcp': 'rtc("turn:{o}?transport=tcp")',
}  # fmt: skip
# That Chromium does not do even if it may.
HARMLESS = {
    'preconnect', 'favicon', 'other-name', 'data', 'service-worker', 'file',
    'file-frame', 'file-window',
}  # fmt: skip
PAGE = """<title>page</title><button id=go>go</button><script>
const add = (tag, of) => {
  const e = Object.assign(document.createElement(tag), of);
  if (tag === 'script' && of.type) e.text = of.textContent;
  document.body.append(e);
  return e;
};
const rtc = async url => {
  const c = new RTCPeerConnection({iceServers: [
      {urls: url, username: 'u', credential: 'c'}]});
  c.createDataChannel('d');
  await c.setLocalDescription(await c.createOffer());
};
go.onclick = () => { %s };
</script>"""


class Outside(asyncio.DatagramProtocol):
  """A port that notes what comes: a path, or 'tcp' or 'udp'."""

  def __init__(self):
    self.seen = []

  async def start(self):
    server = await asyncio.start_server(self._on_connection, '127.0.0.1', 0)
    self.port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: self, local_addr=('127.0.0.1', self.port)
    )
    return server, transport

  def datagram_received(self, data, address):
    del data, address
    self.seen.append('udp')

  async def _on_connection(self, reader, writer):
    self.seen.append('tcp')
    words = (await reader.read(1000)).split()
    if len(words) > 1 and words[1].startswith(b'/'):
      self.seen.append(words[1].decode().strip('/'))
    writer.write(
        b'HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\n'
        b'Content-Length: 0\r\nConnection: close\r\n\r\n'
    )
    writer.close()


@pytest.fixture
def outside(server):
  found = Outside()
  tcp, udp = server.run(found.start())
  yield found
  server.loop.call_soon_threadsafe(tcp.close)
  server.loop.call_soon_threadsafe(udp.close)


@pytest.fixture
def attempt(server, outside, executable):
  """Tries all in a browser; returns what the outside saw and what was shown."""
  place = f'127.0.0.1:{outside.port}'
  for name, script in SCRIPTS.items():
    script = script.replace('{o}', place).replace('{p}', str(outside.port))
    server.pages[f'/{name}'] = PAGE % script
    server.pages[f'/to/{name}'] = sites.moved(f'http://{place}/{name}')

  async def worker(request):
    del request
    return web.Response(
        text=f'fetch("http://{place}/service-worker", {{mode: "no-cors"}})',
        content_type='text/javascript',
    )

  async def header(request):
    del request
    return sites.answer(
        '<img src="data:,x"><button>go</button>',
        **{
            'Content-Security-Policy': (
                f"img-src 'none'; report-uri http://{place}/report"
            ),
            'Link': f'<http://{place}/link>; rel=preload; as=style',
        },
    )

  server.pages['/worker.js'], server.pages['/header'] = worker, header

  def run(hosts):
    browser = Browser(hosts, executable)
    texts = {}
    try:
      for name in (*SCRIPTS, 'header'):
        page = sites.Episode(browser, hosts)
        page.open(f'{server.url}/{name}')
        try:
          texts[name] = page.click('go')
        except EnvError as error:
          texts[name] = str(error)
        if name not in ('stun', 'turn', 'turn-tcp', 'webtransport', 'worker',
                        'shared-worker', 'service-worker'):  # fmt: skip
          page.close()
      time.sleep(2)  # workers and WebRTC heed no virtual clock
    finally:
      browser.close()
    return texts

  return run


@dataclasses.dataclass(frozen=True)
class Unconfined(Hosts):

  def flags(self, refusing_port):
    del refusing_port
    return []


def test_nothing_leaves(server, outside, attempt):
  texts = attempt(Hosts.of({'http://site': server.url}))
  assert outside.seen == []
  assert not [name for name, text in texts.items() if 'root:' in text]


def test_the_attempts_hit_where_they_may(server, outside, attempt):
  attempt(Unconfined.of({'http://site': server.url}))
  missed = {*SCRIPTS, 'report', 'link'} - set(outside.seen)
  # These have no path: two of datagrams, one of another protocol.
  assert {'stun', 'turn', 'turn-tcp', 'webtransport'} <= missed
  missed -= {'stun', 'turn', 'turn-tcp', 'webtransport'}
  assert missed <= HARMLESS
  assert outside.seen.count('udp') >= 2
