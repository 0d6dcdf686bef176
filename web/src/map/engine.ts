/**
 * Draws the nodes of a cluster onto one canvas that shows a window of the layout. Only nodes that changed are drawn
 * again, and a frame draws for a few milliseconds at most: what is left comes with the next.
 */
import type { Node } from '../api';
import type { Change, Cluster } from '../cluster';
import { plural } from '../lib/format';
import { drawNode, type Paint } from './draw';
import { HEADING, layout, rowAt, type Layout, type Options } from './layout';

/** Of the 33 ms that a frame has at 30 a second, so that a slow machine has the rest for everything else. */
const BUDGET_MS = 7;
const FLASH_MS = 900;

export interface Look extends Paint {
  ink: string;
  muted: string;
  font: string;
  flash: string;
  flashes: boolean;
}

export class Engine {
  layout: Layout;
  /** Nodes of each slot now visible that still have to be drawn, in the order in which they were marked. */
  #dirty = new Set<number>();
  #flashes = new Map<number, number>();
  #c: CanvasRenderingContext2D;
  #change: Change & { stop(): void };
  #options: Options = { width: 300, height: 300, zones: true, zoom: 1 };
  #scroll = 0;
  /** How far the window has moved since it was drawn. */
  #shift = 0;
  #frame = 0;
  #whole = true;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly cluster: Cluster,
    private look: Look,
    /** Called when the layout has changed. */
    private readonly laidOut: (made: Layout) => void,
  ) {
    const c = canvas.getContext('2d', { alpha: false });
    if (!c) throw new Error('This browser has no canvas.');
    this.#c = c;
    this.#change = cluster.watch();
    this.layout = layout([], this.#options);
  }

  arrange(options: Partial<Options>): void {
    Object.assign(this.#options, options);
    this.#change.reordered = true;
    this.wake();
  }

  restyle(look: Look): void {
    this.look = look;
    this.#whole = true;
    this.wake();
  }

  scrollTo(top: number): void {
    if (top === this.#scroll) return;
    this.#shift += top - this.#scroll;
    this.#scroll = top;
    this.wake();
  }

  flash(name: string): void {
    const at = this.cluster.position(name);
    if (at < 0 || !this.look.flashes || this.#change.reordered) return;
    this.#flashes.set(this.layout.slot[at] as number, performance.now());
    this.wake();
  }

  /** Draws in the next frame if there is something to draw. */
  wake(): void {
    if (!this.#frame) this.#frame = requestAnimationFrame((now) => this.#draw(now));
  }

  nodeAt(slot: number): Node | undefined {
    return this.cluster.nodes[this.layout.order[slot] ?? -1];
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
    this.#change.stop();
  }

  #draw(now: number): void {
    this.#frame = 0;
    if (this.#change.reordered) {
      this.#change.reordered = false;
      this.#change.changed.clear();
      this.#flashes.clear();
      this.layout = layout(this.cluster.nodes, this.#options);
      this.laidOut(this.layout);
      this.#whole = true;
    }
    if (this.#whole) this.#begin();
    else if (this.#shift) this.#move();
    for (const at of this.#change.changed) this.#mark(this.layout.slot[at] as number);
    this.#change.changed.clear();
    for (const slot of this.#flashes.keys()) this.#mark(slot);

    const end = performance.now() + BUDGET_MS;
    for (const slot of this.#dirty) {
      this.#dirty.delete(slot);
      this.#drawSlot(slot, now);
      if (performance.now() > end) break;
    }
    if (this.#dirty.size || this.#flashes.size) this.wake();
  }

  /** Clears the canvas, writes the headings and marks all visible nodes. */
  #begin(): void {
    this.#whole = false;
    this.#shift = 0;
    this.#dirty.clear();
    const { width, height } = this.#options;
    const ratio = this.#ratio();
    const c = this.#c;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#expose(0, height);
  }

  /** Moves what is drawn along with the window, so that only what comes into sight has to be drawn. */
  #move(): void {
    const { width, height } = this.#options;
    const ratio = this.#ratio();
    const by = this.#shift;
    // Half pixels would blur a little more with every move.
    if (Math.abs(by) >= height || !Number.isInteger(by * ratio)) return this.#begin();
    this.#shift = 0;
    const c = this.#c;
    c.globalCompositeOperation = 'copy';
    c.drawImage(this.canvas, 0, -by, this.canvas.width / ratio, this.canvas.height / ratio);
    c.globalCompositeOperation = 'source-over';
    const [top, tall] = by > 0 ? [height - by, by] : [0, -by];
    c.save();
    c.beginPath();
    c.rect(0, top, width, tall);
    c.clip();
    this.#expose(top, tall);
    c.restore();
  }

  /** Clears a band of the window, writes its headings and marks its nodes. */
  #expose(top: number, tall: number): void {
    this.#c.fillStyle = this.look.ground;
    this.#c.fillRect(0, top, this.#options.width, tall);
    if (this.#options.zones) this.#headings();
    const first = Math.max(0, rowAt(this.layout, this.#scroll + top));
    const last = rowAt(this.layout, this.#scroll + top + tall);
    const end = this.layout.rows[last + 1] ?? this.layout.order.length;
    for (let slot = this.layout.rows[first] ?? 0; slot < end; slot++) this.#dirty.add(slot);
  }

  #ratio(): number {
    return Math.min(devicePixelRatio || 1, 2);
  }

  #headings(): void {
    const c = this.#c;
    c.textBaseline = 'alphabetic';
    for (const { zone, top, count } of this.layout.blocks) {
      const y = top - this.#scroll + HEADING - 8;
      if (y < -HEADING || y > this.#options.height + HEADING) continue;
      c.font = `600 12px ${this.look.font}`;
      c.fillStyle = this.look.ink;
      c.fillText(zone, 0, y);
      const wide = c.measureText(zone).width;
      c.font = `12px ${this.look.font}`;
      c.fillStyle = this.look.muted;
      c.fillText(plural(count, 'node'), wide + 10, y);
    }
  }

  #mark(slot: number): void {
    const y = (this.layout.y[slot] as number) - this.#scroll;
    if (y > -this.layout.pitch && y < this.#options.height) this.#dirty.add(slot);
    else this.#flashes.delete(slot);
  }

  #drawSlot(slot: number, now: number): void {
    const node = this.nodeAt(slot);
    if (!node) return;
    const { cell, pitch } = this.layout;
    const x = this.layout.x[slot] as number;
    const y = (this.layout.y[slot] as number) - this.#scroll;
    const c = this.#c;
    c.fillStyle = this.look.ground;
    c.fillRect(x, y, pitch, pitch);
    drawNode(c, node, x, y, cell, this.look);
    const since = this.#flashes.get(slot);
    if (since === undefined) return;
    const rest = 1 - (now - since) / FLASH_MS;
    if (rest <= 0) return void this.#flashes.delete(slot);
    c.globalAlpha = Math.min(1, rest * 1.6);
    c.strokeStyle = this.look.flash;
    c.lineWidth = cell < 14 ? 1.5 : 2;
    c.strokeRect(x + 0.75, y + 0.75, cell - 1.5, cell - 1.5);
    c.globalAlpha = 1;
  }
}
