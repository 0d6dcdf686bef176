/** What the map can be coloured by: a share of a range for the colour, and words for people. */
import type { Node } from '../api';
import { DASH, milliseconds, number, percent, watts } from '../lib/format';

export interface Metric {
  key: string;
  label: string;
  /** What a node counts, null if it is not known. */
  value(node: Node): number | null;
  text(value: number | null): string;
  /** The top of the scale; the largest value there is, if not given. */
  top?: number;
  /** Above this share of the top a node is over the line. Requests may fill a node, use may not. */
  line?: number;
}

/** Of what a node has: beyond this, pods that burst have no room left. */
const IN_USE = 0.9;

export const share = ([used, of]: [number, number]) => (of > 0 ? used / of : 0);

export const metrics: Metric[] = [
  { key: 'cpu', label: 'CPU requested', value: (node) => share(node.cpu_m), text: (v) => percent(v), top: 1 },
  { key: 'memory', label: 'Memory requested', value: (node) => share(node.memory), text: (v) => percent(v), top: 1 },
  {
    key: 'used',
    label: 'CPU in use',
    value: (node) => hundredth(node.usage_cpu),
    text: (v) => percent(v),
    top: 1,
    line: IN_USE,
  },
  {
    key: 'memused',
    label: 'Memory in use',
    value: (node) => hundredth(node.usage_memory),
    text: (v) => percent(v),
    top: 1,
    line: IN_USE,
  },
  { key: 'pods', label: 'Pods of what fits', value: (node) => share(node.pods), text: (v) => percent(v), top: 1 },
  {
    key: 'gpu',
    label: 'GPUs requested',
    value: (node) => (node.gpu[1] ? share(node.gpu) : null),
    text: (v) => percent(v),
    top: 1,
  },
  { key: 'watts', label: 'Power', value: (node) => node.watts, text: watts },
  { key: 'latency', label: 'Latency to users', value: (node) => node.latency_ms, text: milliseconds },
  { key: 'price', label: 'Price an hour', value: (node) => node.price, text: (v) => (v == null ? DASH : number(v, 2)) },
];

export const metricOf = (key: string | null) => metrics.find((metric) => metric.key === key) ?? (metrics[0] as Metric);

function hundredth(value: number | null): number | null {
  return value === null ? null : value / 100;
}

/** The top of a metric's scale on these nodes. */
export function topOf(metric: Metric, nodes: Node[]): number {
  if (metric.top !== undefined) return metric.top;
  let top = 0;
  for (const node of nodes) top = Math.max(top, metric.value(node) ?? 0);
  return top || 1;
}

/** A node in one sentence, for tooltips and screen readers. */
export function describe(node: Node): string {
  const state = !node.ready ? ', not ready' : !node.schedulable ? ', cordoned' : '';
  return (
    `${node.name}${node.zone ? `, ${node.zone}` : ''}${state}: ${percent(share(node.cpu_m))} of CPU and ` +
    `${percent(share(node.memory))} of memory requested, ${number(node.pods[0])} pods`
  );
}
