// A list of any length. Only the rows that are visible exist; they are reused when one scrolls.

import { h } from './dom.js';

/** Browsers clip elements that are higher than some ten million pixels; beyond this the bar is to scale. */
export const TALLEST = 8_000_000;

/** The first row for a position of the scroll bar. Pure. */
export function firstRow(scrollTop, viewport, rowHeight, total) {
  const whole = total * rowHeight;
  if (whole <= TALLEST) return scrollTop / rowHeight;
  const fit = viewport / rowHeight;
  return (scrollTop / (TALLEST - viewport)) * (total - fit);
}

/** The position of the scroll bar for a first row. Pure. */
export function scrollFor(first, viewport, rowHeight, total) {
  const whole = total * rowHeight;
  if (whole <= TALLEST) return first * rowHeight;
  const fit = viewport / rowHeight;
  return (first / (total - fit)) * (TALLEST - viewport);
}

/**
 * A virtual list. `make()` builds a row's parts once: `{element, …}`; `show(parts, index)` fills them.
 * It is a listbox: one row is selected, the arrow keys and j, k, g, G move it.
 */
export class Rows {
  constructor({ label, rowHeight = 28, make, show, onselect = () => {}, onopen = () => {} }) {
    this.rowHeight = rowHeight;
    this.make = make;
    this.show = show;
    this.onselect = onselect;
    this.onopen = onopen;
    this.total = 0;
    this.selected = -1;
    this.first = 0;
    this.pool = [];
    this.measured = 0;
    this.serial = Rows.serial = (Rows.serial ?? 0) + 1;
    this.space = h('div.rows-space', { role: 'presentation' });
    this.element = h('div.rows', {
      role: 'listbox', tabindex: '0', 'aria-label': label,
      onscroll: () => this.onscroll(), onkeydown: (event) => this.onkey(event), onclick: (event) => this.onclick(event),
      ondblclick: () => this.selected >= 0 && this.onopen(this.selected),
    }, this.space);
    this.element.addEventListener('wheel', (event) => this.onwheel(event), { passive: false });
    new ResizeObserver(() => this.measure()).observe(this.element);
  }

  /** The list has this many rows now. Stays at the end if it was there. */
  resize(total) {
    const atEnd = this.total > 0 && this.first >= this.total - this.fit() - 1;
    this.total = total;
    this.space.style.height = `${Math.min(total * this.rowHeight, TALLEST)}px`;
    if (this.selected >= total) this.selected = total - 1;
    if (atEnd && this.follows) this.scrollTo(Math.max(0, total - this.fit()));
    this.draw();
  }

  /** The list has another height. A selected row that was visible stays visible. */
  measure() {
    const wasVisible = this.isVisible(this.selected);
    this.measured = 0;
    if (wasVisible && !this.isVisible(this.selected)) this.select(this.selected, { quiet: true });
    this.draw();
  }

  /** Whether all of a row is visible. */
  isVisible(index) {
    return index >= this.first && index + 1 <= this.first + this.fit() + 0.01;
  }

  /** Pixels of the list that are visible. To ask the browser each time would make it lay the page out each time. */
  get height() {
    this.measured ||= this.element.clientHeight;
    return this.measured;
  }

  fit() {
    return this.height / this.rowHeight;
  }

  /** Selects a row and scrolls to it if it is not visible. */
  select(index, { quiet = false } = {}) {
    const next = Math.max(0, Math.min(this.total - 1, index));
    if (this.total === 0) return;
    this.selected = next;
    const fit = Math.floor(this.fit()) || 1;
    if (next < this.first) this.scrollTo(next);
    else if (next > this.first + fit - 1) this.scrollTo(next - fit + 1);
    this.draw();
    if (!quiet) this.onselect(next);
  }

  /** Scrolls so that a row is in the middle. */
  centre(index) {
    this.scrollTo(this.centred(index));
  }

  /** The first row when this one is in the middle. */
  centred(index) {
    return Math.max(0, Math.min(index - this.fit() / 2, this.total - this.fit()));
  }

  scrollTo(first) {
    this.first = Math.max(0, Math.min(first, Math.max(0, this.total - this.fit())));
    this.settled = Math.round(scrollFor(this.first, this.height, this.rowHeight, this.total));
    this.element.scrollTop = this.settled;
    this.moved();
  }

  onscroll() {
    // The position that was just set is rounded; the exact one is known.
    if (Math.abs(this.element.scrollTop - (this.settled ?? -9)) > 1) {
      this.settled = null;
      this.first = firstRow(this.element.scrollTop, this.height, this.rowHeight, this.total);
    }
    this.moved();
  }

  /** Other rows are visible: who has to read them begins now, and not at the next frame. */
  moved() {
    if (this.onmove) this.onmove(Math.floor(this.first), Math.ceil(this.fit()));
    this.draw();
  }

  onwheel(event) {
    if (this.total * this.rowHeight <= TALLEST || event.ctrlKey) return;
    event.preventDefault();
    this.scrollTo(this.first + event.deltaY / this.rowHeight);
  }

  onclick(event) {
    const row = event.target.closest('[role=option]');
    const found = row && this.pool.find((parts) => parts.element === row);
    if (found) this.select(found.index);
  }

  onkey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.fit()) - 1);
    const at = this.selected;
    const moves = {
      ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, g: 0,
      End: this.total - 1, G: this.total - 1, PageDown: at + page, PageUp: at - page,
    };
    if (event.key in moves) this.select(moves[event.key]);
    else if (event.key === 'Enter' && at >= 0) this.onopen(at);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Draws at the next frame. */
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = null;
    if (!this.height) return;
    const needed = Math.min(this.total, Math.ceil(this.fit()) + 1);
    while (this.pool.length < needed) this.pool.push(this.born());
    const start = Math.min(Math.floor(this.first), Math.max(0, this.total - needed));
    const top = this.element.scrollTop - (this.first - start) * this.rowHeight;
    this.pool.forEach((parts, place) => {
      const index = start + place;
      parts.element.hidden = place >= needed;
      if (place >= needed) return;
      parts.element.style.transform = `translateY(${Math.round(top + place * this.rowHeight)}px)`;
      if (parts.index !== index || parts.total !== this.total) {
        [parts.index, parts.total] = [index, this.total];
        parts.element.setAttribute('aria-posinset', index + 1);
        parts.element.setAttribute('aria-setsize', this.total);
      }
      const isSelected = index === this.selected;
      parts.element.setAttribute('aria-selected', isSelected);
      if (isSelected) this.element.setAttribute('aria-activedescendant', parts.element.id);
      this.show(parts, index);
    });
    if (this.onpaint) this.onpaint(start, needed);
  }

  born() {
    const parts = this.make();
    parts.element.classList.add('row');
    parts.element.setAttribute('role', 'option');
    parts.element.id = `row-${this.serial}-${this.pool.length}`;
    parts.element.style.height = `${this.rowHeight}px`;
    this.space.append(parts.element);
    return parts;
  }
}
