// Long tables: of thousands of rows, those in view alone are elements.
//
// A screen reader is told of all by aria-rowcount and aria-rowindex. The browser's
// search finds what is in view: a page with such a table has a filter of its own.

import {h, replace} from './dom.js';

const WHOLE = 200; // rows up to which a table has all of them
const MORE = 15; // rows beyond either edge of the view
const USUAL = 27; // pixels of a row, until some were seen

/** The rows of a table in `box`, an element that scrolls and takes the focus. */
export class Rows {
  constructor(box, signal) {
    Object.assign(this, {box, items: [], drawn: new Map(), heights: [], usual: USUAL});
    this.above = gap();
    this.below = gap();
    box.addEventListener('scroll', () => this.draw(), {signal, passive: true});
    const resized = new ResizeObserver(() => this.resized());
    resized.observe(box);
    signal.addEventListener('abort', () => resized.disconnect());
  }

  /** True if rows that are not in view are no elements. */
  get partly() {
    return this.items.length > WHOLE;
  }

  /**
   * Shows a table of `items`, each by `row(item)`, a `tr`, below `head`, a `tr`.
   *
   * The focus stays on the element of the same data-key. With `top`, it begins
   * with its first row, else where it was.
   */
  show(head, items, row, {top = false} = {}) {
    const {box} = this;
    const key = box.contains(document.activeElement) && document.activeElement.dataset.key;
    const place = top ? 0 : box.scrollTop;
    if (items.length !== this.items.length) this.heights = [];
    Object.assign(this, {items, row, from: 0, to: 0});
    this.drawn.clear();
    this.body = h('tbody', {}, this.partly ? [this.above, this.below] : items.map(row));
    this.head = h('thead', {}, head);
    if (this.partly) head.setAttribute('aria-rowindex', 1);
    replace(box, h('table', {'aria-rowcount': this.partly && items.length + 1}, this.head, this.body));
    if (this.partly) this.stretch(place);
    box.scrollTop = place;
    this.draw();
    if (key) this.focus(key);
  }

  /** Takes the table away. */
  clear(...instead) {
    this.items = [];
    this.drawn.clear();
    replace(this.box, ...instead);
  }

  /** Where rows end that do so within `limit` pixels from the top; the first always. */
  ends(limit) {
    let end = heightOf(this.head);
    const found = [];
    for (let i = 0; i < this.items.length; i++) {
      const element = this.partly ? this.drawn.get(i) : this.body.children[i];
      end += element ? heightOf(element) : this.height(i);
      if (end > limit && found.length) break;
      found.push(end);
    }
    return found;
  }

  /** Rows of another width may have other heights. */
  resized() {
    const width = this.box.clientWidth;
    if (width !== this.width) this.heights = [];
    if (width !== this.width && this.drawn.size) this.fill(this.from, this.to);
    this.width = width;
    this.draw();
  }

  height(i) {
    return this.heights[i] ?? this.usual;
  }

  /** The first row of which something is below `y` pixels from the first one. */
  at(y) {
    let i = 0;
    for (let end = this.height(0); end <= y && i < this.items.length - 1; end += this.height(i)) i++;
    return i;
  }

  draw() {
    if (!this.partly || !this.box.isConnected) return;
    // Rows may be higher than was thought, so that others are in view.
    for (let turn = 0; turn < 4; turn++) {
      const {scrollTop, clientHeight} = this.box;
      const from = Math.max(0, this.at(scrollTop) - MORE);
      const to = Math.min(this.items.length, this.at(scrollTop + clientHeight) + 1 + MORE);
      if (this.drawn.size && from === this.from && to === this.to) return;
      this.fill(from, to);
    }
  }

  /** Has rows `from` to `to` as elements; those that were are kept. */
  fill(from, to) {
    Object.assign(this, {from, to});
    const atEnd = this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - 1;
    for (const [i, element] of this.drawn) {
      if (i >= from && i < to) continue;
      if (element.contains(document.activeElement)) this.box.focus({preventScroll: true});
      element.remove();
      this.drawn.delete(i);
    }
    let next = this.above;
    for (let i = from; i < to; i++) {
      let element = this.drawn.get(i);
      if (!element) {
        element = this.row(this.items[i]);
        element.setAttribute('aria-rowindex', i + 2);
        this.drawn.set(i, element);
        next.after(element);
      }
      next = element;
    }
    for (const [i, element] of this.drawn) this.heights[i] = heightOf(element);
    const seen = this.heights.filter((each) => each !== undefined);
    this.usual = seen.reduce((sum, each) => sum + each, 0) / seen.length;
    this.stretch();
    // Rows that are higher than was thought push the end down.
    if (atEnd && to === this.items.length) this.box.scrollTop = this.box.scrollHeight;
  }

  /** Gives what is not drawn its height; `place`, where there is no row yet. */
  stretch(place) {
    let [above, below] = [0, 0];
    const from = place === undefined ? this.from : this.at(place);
    const to = place === undefined ? this.to : from;
    for (let i = 0; i < from; i++) above += this.height(i);
    for (let i = to; i < this.items.length; i++) below += this.height(i);
    setHeight(this.above, above);
    setHeight(this.below, below);
  }

  focus(key) {
    const found = [...this.box.querySelectorAll('[data-key]')].find((each) => each.dataset.key === key);
    (found || this.box).focus({preventScroll: !found});
  }
}

// With its fraction: those of hundreds of rows are a row.
const heightOf = (element) => element.getBoundingClientRect().height;

/**
 * A row as high as the rows that are not drawn.
 *
 * When heights change, the browser scrolls so that what it took for its anchor
 * stays in place. That may be a row, never a gap: it shrinks as rows are drawn.
 */
function gap() {
  return h('tr', {class: 'gap', 'aria-hidden': 'true', style: {'overflow-anchor': 'none'}},
      h('td', {colspan: 99, style: {padding: '0', border: '0'}}));
}

function setHeight(row, height) {
  row.hidden = !height;
  row.firstChild.style.height = `${height}px`;
}
