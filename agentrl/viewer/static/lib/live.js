// What the server tells of new steps and episodes.

/**
 * Calls `listener({changes, ...})` after each change until `signal` aborts.
 *
 * Only while the page is seen: a browser has six connections to a server, for all
 * of its tabs. The first event comes at once, so nothing is missed in between.
 */
export function follow(listener, signal) {
  let source = null;
  const turn = () => {
    source?.close();
    source = null;
    if (document.hidden || signal.aborted) return;
    source = new EventSource('/api/events');
    source.addEventListener('change', (event) => listener(JSON.parse(event.data)));
  };
  document.addEventListener('visibilitychange', turn, {signal});
  signal.addEventListener('abort', turn);
  turn();
}

/** Calls `refresh()` so long after a change, once for all that come meanwhile. */
export function followEvery(ms, refresh, signal) {
  let waiting = null;
  follow(() => {
    waiting ??= setTimeout(() => {
      waiting = null;
      refresh();
    }, ms);
  }, signal);
  signal.addEventListener('abort', () => clearTimeout(waiting));
}
