// What the server tells of new steps and episodes.

/** Calls `listener({changes, ...})` after each change until `signal` aborts. */
export function follow(listener, signal) {
  const source = new EventSource('/api/events');
  source.addEventListener('change', (event) => listener(JSON.parse(event.data)));
  signal.addEventListener('abort', () => source.close());
}
