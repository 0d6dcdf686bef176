import assert from 'node:assert/strict';
import { test } from 'node:test';
import { colour, contrast, luminance, ramps } from '../../src/lib/scale';
import { pack } from '../../src/map/draw';
import { hit, layout, step } from '../../src/map/layout';
import { Synthetic } from '../synthetic';

const nodes = (count: number) => new Synthetic(count, count * 5, 3, 'p').nodes;

test('five thousand nodes fit a laptop’s screen at once', () => {
  const made = layout(nodes(5000), { width: 1040, height: 640, zones: true, zoom: 1 });
  assert.ok(made.height <= 640, `${made.height} pixels high`);
  assert.ok(made.cell >= 8, `${made.cell} pixels wide`);
});

test('every node has one place, and is found there', () => {
  const made = layout(nodes(301), { width: 500, height: 400, zones: true, zoom: 1 });
  const places = new Set<string>();
  for (let slot = 0; slot < 301; slot++) {
    const [x, y] = [made.x[slot] as number, made.y[slot] as number];
    places.add(`${x} ${y}`);
    assert.equal(hit(made, x + 1, y + 1), slot);
    assert.equal(made.slot[made.order[slot] as number], slot);
  }
  assert.equal(places.size, 301);
  assert.equal(hit(made, -5, 10), -1);
  assert.equal(hit(made, 5, 1e6), -1);
});

test('arrow keys go everywhere and never outside', () => {
  const made = layout(nodes(50), { width: 200, height: 300, zones: true, zoom: 1 });
  assert.equal(step(made, 0, 'ArrowLeft'), 0);
  assert.equal(step(made, 0, 'ArrowUp'), 0);
  assert.equal(step(made, 0, 'End'), 49);
  assert.equal(step(made, 49, 'ArrowRight'), 49);
  assert.equal(step(made, 49, 'ArrowDown'), 49);
  let at = 0;
  for (let moves = 0; moves < 100; moves++) at = step(made, at, 'ArrowDown');
  assert.ok((made.y[at] as number) === (made.y[49] as number), 'the last row is reached');
});

test('an empty cluster has a layout', () => {
  const made = layout([], { width: 500, height: 400, zones: true, zoom: 1 });
  assert.equal(made.order.length, 0);
  assert.equal(hit(made, 5, 5), -1);
});

test('the fullest are first where nodes are ordered by load', () => {
  const all = nodes(90);
  const made = layout(all, { width: 500, height: 400, zones: false, zoom: 1, rank: (node) => node.cpu_m[0] });
  for (let slot = 1; slot < 90; slot++) {
    const [before, here] = [all[made.order[slot - 1] as number], all[made.order[slot] as number]];
    assert.ok((before?.cpu_m[0] ?? 0) >= (here?.cpu_m[0] ?? 0));
  }
});

test('pods fill their node: inside of it, apart, in proportion', () => {
  const parts: { x: number; y: number; w: number; h: number }[] = [];
  pack([400, 300, 200, 100], 0, 4, 10, 20, 100, 100, (x, y, w, h) => parts.push({ x, y, w, h }));
  assert.equal(parts.length, 4);
  for (const { x, y, w, h } of parts) assert.ok(x >= 10 && y >= 20 && x + w <= 110 && y + h <= 120);
  const areas = parts.map(({ w, h }) => (w + 1) * (h + 1)).sort((a, b) => b - a);
  [4000, 3000, 2000, 1000].forEach((area, at) => assert.ok(Math.abs((areas[at] ?? 0) - area) < 300, `${areas}`));
});

test('lightness goes one way along both ramps, so that they read without colour', () => {
  const light = ramps.light.colours.map(luminance);
  const dark = ramps.dark.colours.map(luminance);
  for (let at = 1; at < light.length; at++) {
    assert.ok((light[at] as number) <= (light[at - 1] as number), `light ${at}`);
    assert.ok((dark[at] as number) >= (dark[at - 1] as number), `dark ${at}`);
  }
  assert.ok(
    contrast(light.length ? (ramps.light.colours.at(-1) as string) : '', '#e6e3da') > 4.5,
    'a full node against an empty one',
  );
});

test('only what is over the line leaves the ramp', () => {
  assert.equal(colour(ramps.light, 1.01), ramps.light.over);
  assert.equal(colour(ramps.light, 1), ramps.light.colours.at(-1));
  assert.equal(colour(ramps.light, 0.91, 0.9), ramps.light.over);
  assert.equal(colour(ramps.light, -1), ramps.light.colours[0]);
});
