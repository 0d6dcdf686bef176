/** Where each node lies: rows of equal cells, a block for each zone. Pure, so that it can be tested without a canvas. */
import type { Node } from '../api';

export interface Block {
  zone: string;
  top: number;
  count: number;
}

export interface Layout {
  /** Cell and gap together, in CSS pixels. */
  pitch: number;
  cell: number;
  columns: number;
  height: number;
  blocks: Block[];
  /** The node of each slot, and the slot of each node. */
  order: Int32Array;
  slot: Int32Array;
  x: Int32Array;
  y: Int32Array;
  /** The first slot of each row; its end is the first of the next. */
  rows: number[];
}

export interface Options {
  width: number;
  height: number;
  zones: boolean;
  /** Ranks nodes within a zone; their own order if not given. */
  rank?: ((node: Node) => number) | undefined;
  /** 1 shows everything at once, where cells do not get smaller than can be seen. */
  zoom: number;
}

export const HEADING = 22;
const SMALLEST = 9;
const LARGEST = 72;
const BETWEEN = 8;

export function layout(nodes: Node[], options: Options): Layout {
  const groups = new Map<string, number[]>();
  nodes.forEach((node, at) => {
    const zone = options.zones ? (node.zone ?? 'no zone') : '';
    const group = groups.get(zone);
    if (group) group.push(at);
    else groups.set(zone, [at]);
  });
  const rank = options.rank;
  if (rank)
    for (const group of groups.values()) group.sort((a, b) => rank(nodes[b] as Node) - rank(nodes[a] as Node) || a - b);

  const sizes = [...groups.values()].map((group) => group.length);
  let pitch = LARGEST;
  while (pitch > SMALLEST && heightOf(sizes, options, pitch) > options.height) pitch--;
  if (options.zoom > 1) {
    // What scrolls anyway may as well fill the width.
    pitch = Math.min(120, Math.round(pitch * options.zoom));
    pitch = Math.floor(options.width / Math.max(1, Math.floor(options.width / pitch)));
  }

  const columns = Math.max(1, Math.floor(options.width / pitch));
  const n = nodes.length;
  const made: Layout = {
    pitch,
    cell: pitch - (pitch < 14 ? 1 : pitch < 32 ? 2 : 4),
    columns,
    height: heightOf(sizes, options, pitch),
    blocks: [],
    order: new Int32Array(n),
    slot: new Int32Array(n),
    x: new Int32Array(n),
    y: new Int32Array(n),
    rows: [],
  };
  let slot = 0;
  let top = 0;
  for (const [zone, group] of groups) {
    made.blocks.push({ zone, top, count: group.length });
    if (options.zones) top += HEADING;
    group.forEach((at, place) => {
      const column = place % columns;
      if (column === 0) made.rows.push(slot);
      made.order[slot] = at;
      made.slot[at] = slot;
      made.x[slot] = column * pitch;
      made.y[slot] = top + Math.floor(place / columns) * pitch;
      slot++;
    });
    top += Math.ceil(group.length / columns) * pitch + (options.zones ? BETWEEN : 0);
  }
  return made;
}

function heightOf(sizes: number[], { width, zones }: Options, pitch: number): number {
  const columns = Math.max(1, Math.floor(width / pitch));
  return sizes.reduce((sum, size) => sum + Math.ceil(size / columns) * pitch + (zones ? HEADING + BETWEEN : 0), 0);
}

/** The slot under a point, or -1. */
export function hit(made: Layout, x: number, y: number): number {
  const column = Math.floor(x / made.pitch);
  if (column < 0 || column >= made.columns) return -1;
  const row = rowAt(made, y);
  const first = made.rows[row];
  if (first === undefined || y >= (made.y[first] as number) + made.pitch) return -1;
  const end = made.rows[row + 1] ?? made.order.length;
  return first + column < end ? first + column : -1;
}

/** The last row that begins at or above `y`, -1 if none does. */
export function rowAt(made: Layout, y: number): number {
  let low = 0;
  let high = made.rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((made.y[made.rows[middle] as number] as number) <= y) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Where a key leads from a slot. */
export function step(made: Layout, slot: number, key: string): number {
  const last = made.order.length - 1;
  const clamp = (value: number) => Math.max(0, Math.min(last, value));
  const row = rowAt(made, made.y[slot] as number);
  const column = slot - (made.rows[row] ?? 0);
  const into = (target: number) => {
    const at = Math.max(0, Math.min(made.rows.length - 1, target));
    const end = (made.rows[at + 1] ?? last + 1) - 1;
    return Math.min((made.rows[at] ?? 0) + column, end);
  };
  switch (key) {
    case 'ArrowLeft':
      return clamp(slot - 1);
    case 'ArrowRight':
      return clamp(slot + 1);
    case 'ArrowUp':
      return into(row - 1);
    case 'ArrowDown':
      return into(row + 1);
    case 'PageUp':
      return into(row - 10);
    case 'PageDown':
      return into(row + 10);
    case 'Home':
      return 0;
    case 'End':
      return last;
    default:
      return slot;
  }
}
