/** One node as a hold with its cargo: pods fill it from the bottom, the mark at its side is what is really in use. */
import type { Node } from '../api';
import { colour, type Ramp } from '../lib/scale';
import { share, type Metric } from './metrics';

export interface Paint {
  ramp: Ramp;
  empty: string;
  ground: string;
  line: string;
  mark: string;
  metric: Metric;
  top: number;
}

/** Cells at least this large show their pods. */
const SHOWS_PODS = 18;
const SHOWS_USE = 24;
/** Cells at least this large bear the whole Plimsoll mark at the line. */
const SHOWS_MARK = 56;

export function drawNode(
  c: CanvasRenderingContext2D,
  node: Node,
  x: number,
  y: number,
  size: number,
  paint: Paint,
): void {
  c.fillStyle = paint.empty;
  c.fillRect(x, y, size, size);
  const load = Math.min(1, share(node.cpu_m));
  const value = paint.metric.value(node);
  const height = load > 0 ? Math.max(1, Math.round(load * size)) : 0;
  if (height > 0) {
    c.fillStyle =
      value === null
        ? paint.mark
        : colour(
            paint.ramp,
            paint.metric.top === undefined ? Math.min(1, value / paint.top) : value / paint.top,
            paint.metric.line,
          );
    const top = y + size - height;
    if (size < SHOWS_PODS || node.shares.length < 2) c.fillRect(x, top, size, height);
    else pack(node.shares, 0, node.shares.length, x, top, size, height, (px, py, w, h) => c.fillRect(px, py, w, h));
  }
  if (node.usage_cpu !== null && size >= SHOWS_USE && height > 0) {
    const at = Math.round(y + size * (1 - Math.min(1, node.usage_cpu / 100)));
    const wide = Math.round(size * 0.36);
    c.fillStyle = paint.ground;
    c.fillRect(x + size - wide - 1, at - 2, wide + 1, 4);
    c.fillStyle = paint.line;
    c.fillRect(x + size - wide, at - 1, wide, 2);
    if (size >= SHOWS_MARK) plimsoll(c, x + size - wide / 2, at, size * 0.07, paint);
  }
  if (!node.ready) {
    c.strokeStyle = paint.mark;
    c.lineWidth = size < 14 ? 1 : 2;
    c.beginPath();
    c.moveTo(x + 1, y + 1);
    c.lineTo(x + size - 1, y + size - 1);
    c.moveTo(x + size - 1, y + 1);
    c.lineTo(x + 1, y + size - 1);
    c.stroke();
  } else if (!node.schedulable) {
    c.strokeStyle = paint.mark;
    c.lineWidth = 1;
    c.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  }
}

function plimsoll(c: CanvasRenderingContext2D, x: number, y: number, radius: number, paint: Paint): void {
  for (const [colour, width] of [
    [paint.ground, 5],
    [paint.line, 2],
  ] as const) {
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.beginPath();
    c.arc(x, y, radius, 0, 2 * Math.PI);
    c.stroke();
  }
}

/**
 * Divides a rectangle among weights, halving the list where its sum halves and the rectangle along its longer side.
 * Whole pixels; a gap of one pixel where there is room for it.
 */
export function pack(
  weights: readonly number[],
  from: number,
  to: number,
  x: number,
  y: number,
  w: number,
  h: number,
  emit: (x: number, y: number, w: number, h: number) => void,
): void {
  if (to - from === 1 || w * h <= 6) {
    if (w > 0 && h > 0) emit(x, y, w > 3 ? w - 1 : w, h > 3 ? h - 1 : h);
    return;
  }
  let sum = 0;
  for (let at = from; at < to; at++) sum += weights[at] as number;
  if (sum <= 0) return emit(x, y, w, h);
  let first = weights[from] as number;
  let cut = from + 1;
  while (cut < to - 1 && first + (weights[cut] as number) / 2 < sum / 2) first += weights[cut++] as number;
  if (w >= h) {
    const part = Math.max(1, Math.min(w - 1, Math.round((w * first) / sum)));
    pack(weights, from, cut, x, y, part, h, emit);
    pack(weights, cut, to, x + part, y, w - part, h, emit);
  } else {
    const part = Math.max(1, Math.min(h - 1, Math.round((h * first) / sum)));
    pack(weights, from, cut, x, y + h - part, w, part, emit);
    pack(weights, cut, to, x, y, w, h - part, emit);
  }
}
