/** What the fixture says about policies, training, rewards and the rest. */
import type { Demo, Policies, Rewards, Side, Training, Weights } from '../src/api';
import { random, type Synthetic } from './synthetic';

const against = (baseline: string, change_percent: number, low: number, high: number) => ({
  baseline,
  change_percent,
  low,
  high,
  significant: high < 0 || low > 0,
});
const trained_at = '2026-10-02T09:30:00Z';

export const policies = (): Policies => ({
  active: 'models/energy',
  shadow: 'models/packing',
  trust: 0.35,
  items: [
    {
      name: 'models/energy',
      kind: 'model',
      description: 'Least energy on machines of several kinds.',
      version: '3f1c',
      evidence: {
        objective: 'energy',
        windows: 12,
        trained_at,
        features: ['pod cpu', 'pod memory', 'predicted hours', 'node idle watts', 'node share', 'hours busy'],
        against: [
          against('default', -27.33, -32.14, -22.86),
          against('best-fit', -21.97, -24.84, -19.23),
          against('efficient-first', -3.16, -4.14, -2.2),
        ],
      },
    },
    {
      name: 'models/packing',
      kind: 'model',
      description: 'Fewest machine-hours on machines of one kind.',
      version: '88a0',
      evidence: {
        objective: 'machine-hours',
        windows: 12,
        trained_at,
        features: ['pod cpu', 'predicted hours', 'node share'],
        against: [against('default', -77.7, -79.9, -75.5), against('longest-awake', -0.8, -1.7, -0.1)],
      },
    },
    {
      name: 'models/latency-energy',
      kind: 'model',
      description: 'Nearest machines for users, at the energy of packing.',
      version: '11d2',
      evidence: {
        objective: 'p95 latency',
        windows: 12,
        trained_at,
        features: [],
        against: [against('nearest', 0.4, -1.1, 1.9)],
      },
    },
    {
      name: 'models/mine',
      kind: 'model',
      description: 'Trained yesterday on monday.csv.gz.',
      version: '0001',
      evidence: null,
    },
    {
      name: 'default',
      kind: 'heuristic',
      description: 'Exactly as kube-scheduler v1.36 decides.',
      version: null,
      evidence: null,
    },
    {
      name: 'best-fit',
      kind: 'heuristic',
      description: 'The node that is fullest afterwards.',
      version: null,
      evidence: null,
    },
    {
      name: 'longest-awake',
      kind: 'heuristic',
      description: 'The node that has had pods for longest.',
      version: null,
      evidence: null,
    },
  ],
});

const weights = (utilisation: number, balance: number, latency: number, affinity: number, energy: number): Weights => ({
  utilisation,
  balance,
  latency,
  affinity,
  energy,
});

export const rewards = (): Rewards => ({
  profile: 'default',
  profiles: [
    { name: 'default', weights: weights(0.3, 0.25, 0.25, 0.1, 0.1) },
    { name: 'web', weights: weights(0.15, 0.25, 0.45, 0.1, 0.05) },
    { name: 'batch', weights: weights(0.5, 0.1, 0.05, 0.1, 0.25) },
    { name: 'green', weights: weights(0.25, 0.05, 0.1, 0.1, 0.5) },
  ],
  weights: weights(0.3, 0.25, 0.25, 0.1, 0.1),
  defaults: weights(0.3, 0.25, 0.25, 0.1, 0.1),
});

export function training(): Training {
  const r = random(4);
  const now = Math.floor(Date.now() / 1000);
  return {
    enabled: true,
    interval: 5000,
    state: 'waiting',
    points: Array.from({ length: 240 }, (_, at) => ({
      step: at * 50,
      at: now - (240 - at) * 60,
      return: 14 - 10 * Math.exp(-at / 60) + (r() - 0.5) * 1.6,
      loss: 0.02 + 0.4 * Math.exp(-at / 45) * (0.8 + 0.4 * r()),
      epsilon: Math.max(0.05, 1 - at / 72),
    })),
    candidates: [
      {
        version: '3f1c',
        at: '2026-11-15T22:10:00Z',
        verdict: 'promoted',
        reason: 'better than 2e07 on 12 of 12 windows',
        change_percent: -1.9,
        low: -2.8,
        high: -1.1,
      },
      {
        version: '2f90',
        at: '2026-11-15T16:02:00Z',
        verdict: 'refused',
        reason: 'not better beyond chance',
        change_percent: -0.2,
        low: -0.9,
        high: 0.6,
      },
      {
        version: '2e07',
        at: '2026-11-14T20:41:00Z',
        verdict: 'rolled-back',
        reason: 'pods waited longer than under the one before',
        change_percent: 1.4,
        low: 0.3,
        high: 2.6,
      },
    ],
  };
}

export const config = {
  profiles: [
    { scheduler_name: 'plimsoll', policy: 'models/energy' },
    { scheduler_name: 'batch', policy: 'models/packing' },
  ],
  guard_rails: { decision_deadline_ms: 100, max_in_flight: 256 },
  telemetry: {
    interval_seconds: 15,
    stale_after_seconds: 60,
    prometheus: { address: 'http://prometheus.monitoring:9090', sets: ['node-exporter', 'kepler'] },
  },
  rewards: { profile: 'default' },
  environment: { REWARD_ENERGY: '0.1' },
};

export const report = `<!doctype html><html lang="en"><title>The thesis</title><h1>The thesis</h1><p>16 of 16 held.</p></html>`;

/** A day of 86,400 s as two sides live through it. */
export function demo(cluster: Synthetic, clock: number, speed: number, paused: boolean): Demo {
  const totals = cluster.totals();
  const day = 0.35 + 0.3 * Math.sin(((clock / 86_400) * 2 - 0.5) * Math.PI);
  const n = totals.nodes;
  const right = Math.round(n * (day / 0.82));
  const left = Math.round(n * Math.min(1, 0.8 + day / 4));
  const hours = clock / 3600;
  const side = (policy: string, active: number, kilowatts: number, balance: number, spread: number): Side => ({
    policy,
    kwh: hours * kilowatts,
    active_nodes: active,
    balance,
    pending: 0,
    placed: Math.round(clock / 9),
    totals: { ...totals, active_nodes: active },
    loads: Array.from({ length: n }, (_, at) =>
      at < active
        ? Math.round(
            1000 * Math.min(0.94, day * (n / active) * (1 - spread / 2 + (spread * ((at * 7919) % 100)) / 100)),
          )
        : 0,
    ),
  });
  return {
    clock,
    speed,
    paused,
    left: side('default', left, n * 0.17, 0.07, 0.5),
    right: side('models/energy', right, n * 0.118, 0.38, 0.2),
  };
}
