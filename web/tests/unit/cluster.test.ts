import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Decision, Node } from '../../src/api';
import { Cluster, sum } from '../../src/cluster';
import { after, newest } from '../../src/merge';

const node = (name: string, requested = 0, zone: string | null = 'a'): Node => ({
  name,
  zone,
  ready: true,
  schedulable: true,
  cpu_m: [requested, 1000],
  memory: [0, 1],
  pods: [requested ? 1 : 0, 110],
  gpu: [0, 0],
  shares: [],
  usage_cpu: null,
  usage_memory: null,
  watts: null,
  latency_ms: null,
  price: null,
});
const names = (cluster: Cluster) => cluster.nodes.map(({ name }) => name);

test('nodes are in the order of zones and of the numbers in their names', () => {
  const cluster = new Cluster();
  cluster.load([node('n-10'), node('n-9'), node('n-1', 0, 'b'), node('n-2', 0, null)], 1);
  assert.deepEqual(names(cluster), ['n-2', 'n-9', 'n-10', 'n-1']);
});

test('a change of a known node is told by its position alone', () => {
  const cluster = new Cluster();
  cluster.load([node('a'), node('b')], 1);
  const change = cluster.watch();
  change.reordered = false;
  cluster.merge(2, [node('b', 500)], []);
  assert.deepEqual([...change.changed], [1]);
  assert.equal(change.reordered, false);
  assert.equal(cluster.get('b')?.cpu_m[0], 500);
});

test('nodes that come, go or move to another zone reorder', () => {
  const cluster = new Cluster();
  cluster.load([node('a'), node('b'), node('c')], 1);
  const change = cluster.watch();
  change.reordered = false;
  cluster.merge(2, [node('d'), node('a', 0, 'z')], ['b', 'unknown']);
  assert.equal(change.reordered, true);
  assert.deepEqual(names(cluster), ['c', 'd', 'a']);
  assert.equal(cluster.position('a'), 2);
});

test('what is older than what is known is ignored', () => {
  const cluster = new Cluster();
  cluster.load([node('a', 700)], 5);
  cluster.merge(4, [node('a', 1)], ['a']);
  assert.equal(cluster.get('a')?.cpu_m[0], 700);
});

test('totals are those of the nodes', () => {
  const totals = sum([node('a', 1000), node('b', 0)]);
  assert.equal(totals.active_nodes, 1);
  assert.deepEqual(totals.cpu_m, [1000, 2000]);
  assert.equal(totals.balance, 0.5);
  assert.equal(totals.watts, null, 'unknown is not zero');
  assert.equal(sum([]).balance, 0);
});

test('a decision that was loaded and streamed is there once, newest first', () => {
  const some = (...ids: number[]) => ids.map((id) => ({ id }) as Decision);
  assert.deepEqual(newest(some(5, 4), some(4, 3, 2), 4), some(5, 4, 3, 2));
  assert.deepEqual(newest(some(5, 4), some(4, 3, 2), 3), some(5, 4, 3));
});

test('points of the stream follow those loaded', () => {
  assert.deepEqual(
    after([1, 2], [2, 3], (at) => at),
    [1, 2, 3],
  );
  assert.deepEqual(
    after([], [2, 3], (at) => at),
    [2, 3],
  );
});
