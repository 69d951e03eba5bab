// Elements, texts and requests. Nothing here, or anywhere else, makes markup of
// a text: hostile content of episodes stays text.

/**
 * An element.
 *
 * `attrs`: attributes; `class`, `text` (its text), `style` (an object of CSS
 * properties), `dataset` (an object), `onNAME` (a listener); null, undefined and
 * false leave one out, true sets an empty one. Children are nodes, texts,
 * numbers, arrays of them, or null.
 */
export function h(tag, attrs = {}, ...children) {
  return fill(document.createElement(tag), attrs, children);
}

/** An SVG element; like `h`. */
export function s(tag, attrs = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  return fill(made, attrs, children);
}

function fill(element, attrs, children) {
  for (const [name, value] of Object.entries(attrs)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') element.textContent = value;
    else if (name === 'style') setStyle(element, value);
    else if (name === 'dataset') Object.assign(element.dataset, value);
    else if (typeof value === 'function') {
      element.addEventListener(name.slice(2).toLowerCase(), value);
    } else element.setAttribute(name, value === true ? '' : value);
  }
  append(element, children);
  return element;
}

// By the object model: the content security policy refuses style attributes.
function setStyle(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    element.style.setProperty(name, value);
  }
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces what is in an element. */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** The query of `params` without its empty values. */
export function query(params) {
  const kept = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === '') continue;
    for (const one of [value].flat()) kept.append(name, one);
  }
  return kept.toString();
}

/**
 * The JSON of a route: `api('episodes', {run}, {signal})`.
 *
 * With `body`, a POST of it as JSON. Throws an ApiError with words for people.
 */
export async function api(route, params = {}, {signal, body} = {}) {
  const text = query(params);
  const options = {signal};
  if (body !== undefined) {
    options.method = 'POST';
    options.headers = {'Content-Type': 'application/json'};
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(`/api/${route}${text && `?${text}`}`, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(
        'The viewer does not answer: is its command still running?', 0);
  }
  const found = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new ApiError(
        found.error || `The viewer answered ${response.status}.`,
        response.status);
  }
  return found;
}

/** A box that says why there is nothing, and what to do. */
export function notice(title, ...rest) {
  return h('div', {class: 'notice'}, h('strong', {}, title), ...rest);
}

/** A box for an error. */
export function failure(error) {
  return h('div', {class: 'notice bad', role: 'alert'},
      h('strong', {}, 'This cannot be shown. '), error.message);
}

/** A number with `digits` after the point; a dash for none. */
export function number(value, digits = 2) {
  if (value === null || value === undefined) return '–';
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return value.toLocaleString('en', {maximumFractionDigits: digits});
}

/** A share as a percentage; a dash for none. */
export function percent(value, digits = 1) {
  return value === null || value === undefined ? '–' :
    `${(100 * value).toFixed(digits)}%`;
}

// What would command a terminal, hide, or turn text around is spelled out.
const CONTROL = new RegExp(
    '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b\\u200c' +
    '\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]', 'g');

/** A text whose control and direction characters can be seen. */
export function visible(text) {
  return String(text).replace(CONTROL, (c) => {
    const code = c.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `\\u${code.toString(16).padStart(4, '0')}`;
  });
}
