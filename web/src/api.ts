/** The bridge's HTTP API: its types, and one client that turns every failure into an `ApiError` a person can act on. */

export type Pair = [number, number];
export type Role = 'viewer' | 'admin';
export type Mode = 'schedule' | 'shadow' | 'advise' | 'demo';

export interface Node {
  name: string;
  zone: string | null;
  ready: boolean;
  schedulable: boolean;
  cpu_m: Pair;
  memory: Pair;
  pods: Pair;
  gpu: Pair;
  /** Permille of the node's CPU of each pod, largest first, at most 64. */
  shares: number[];
  usage_cpu: number | null;
  usage_memory: number | null;
  watts: number | null;
  latency_ms: number | null;
  price: number | null;
  /** The cluster that it belongs to, or stands for if it is virtual. */
  cluster?: string;
  virtual?: boolean;
}

export interface NodePod {
  namespace: string;
  name: string;
  cpu_m: number;
  memory: number;
  priority: number;
  owner: string | null;
  since: string | null;
}

export interface Reading {
  metric: string;
  value: number | null;
  age_seconds: number | null;
  state: 'fresh' | 'stale' | 'missing';
}

export interface NodeDetail {
  labels: Record<string, string>;
  taints: { key: string; value: string | null; effect: string }[];
  pods: NodePod[];
  telemetry: Reading[];
}

export interface Totals {
  nodes: number;
  active_nodes: number;
  pods: number;
  cpu_m: Pair;
  memory: Pair;
  watts: number | null;
  watts_default: number | null;
  balance: number | null;
  latency_ms: number | null;
}

export interface Pending {
  active: number;
  backoff: number;
  unschedulable: number;
  gated: number;
}

export interface Status {
  version: string;
  role: Role;
  mode: Mode;
  leader: boolean | null;
  ready: boolean;
  uptime_seconds: number;
  policy: string;
  training: {
    enabled: boolean;
    running: boolean;
    interval: number;
    placements_since: number;
    episodes: number;
    loss: number | null;
  };
  pending: Pending;
  placed_total: number;
  decision_ms: { p50: number | null; p99: number | null };
  started: string;
}

export interface ClusterState {
  at: string;
  revision: number;
  nodes: Node[];
  totals: Totals;
}

export interface Decision {
  id: number | string;
  at: string;
  namespace: string;
  pod: string;
  outcome: 'placed' | 'refused' | 'preempting';
  node: string | null;
  policy: string;
  decided_by: 'model' | 'heuristic' | 'recommendation';
  fallback: string | null;
  milliseconds: number;
  feasible: number;
  evaluated: number;
  message: string | null;
  shadow_node: string | null;
}

export interface Score {
  node: string;
  score: number;
  parts: { plugin: string; score: number; weight: number }[];
}

export interface Refusal {
  reason: string;
  plugin: string;
  count: number;
  nodes: string[];
}

export interface DecisionDetail extends Decision {
  /** Whether the scores are of the time of the decision, or of now. */
  as_of?: 'then' | 'now';
  scores: Score[];
  refused: Refusal[];
}

export interface PendingPod {
  namespace: string;
  name: string;
  queue: keyof Pending;
  attempts: number;
  since: string;
  message: string | null;
  plugins: string[];
}

export interface Evidence {
  objective: string;
  windows: number;
  against: { baseline: string; change_percent: number; low: number; high: number; significant: boolean }[];
  trained_at: string | null;
  features: string[] | number | null;
}

export interface Policy {
  name: string;
  kind: 'model' | 'heuristic';
  description: string;
  version: string | null;
  evidence: Evidence | null;
}

export interface Policies {
  active: string;
  shadow: string | null;
  trust: number;
  items: Policy[];
}

export const objectives = ['utilisation', 'balance', 'latency', 'affinity', 'energy'] as const;
export type Weights = Record<(typeof objectives)[number], number>;

export interface Rewards {
  profile: string | null;
  profiles: { name: string; weights: Weights }[];
  weights: Weights;
  defaults: Weights;
}

export interface Outcome {
  watts: number | null;
  active_nodes: number | null;
  balance: number | null;
  latency_ms: number | null;
  refused: number | null;
}

export interface Preview {
  now: Outcome;
  then: Outcome;
  pods: number;
  seconds: number;
  /** Whether the policy that these weights decide for ranks. */
  ranks: boolean;
}

export interface Job<T = unknown> {
  id: string;
  kind: string;
  state: 'running' | 'done' | 'failed';
  progress: number;
  message: string | null;
  result: T | null;
}

/** One moment of the cluster beside what the default scheduler would have made of it; null where unknown. */
export interface Point {
  at: number;
  watts: number | null;
  watts_default: number | null;
  active_nodes: number | null;
  active_nodes_default: number | null;
  balance: number | null;
  balance_default: number | null;
  latency_ms: number | null;
  latency_ms_default: number | null;
  pods: number | null;
  saving_kwh: number | null;
  placed_per_second: number | null;
}

export interface TrainingPoint {
  step: number;
  at: number | string;
  return: number | null;
  loss: number | null;
  epsilon: number | null;
}

export interface Candidate {
  version: string;
  at: string;
  verdict: 'promoted' | 'refused' | 'rolled-back' | 'shadow';
  reason: string;
  change_percent: number | null;
  low: number | null;
  high: number | null;
}

export interface Training {
  enabled: boolean;
  interval: number;
  state: 'off' | 'waiting' | 'training' | 'judging' | 'shadowing';
  points: TrainingPoint[];
  candidates: Candidate[];
}

export interface Experiment {
  name: string;
  title: string;
  at: string;
  path: string;
}

export interface Recording {
  name: string;
  state: string;
  pods: number;
  seconds: number;
  path: string | null;
}

export interface Side {
  policy: string;
  kwh: number;
  active_nodes: number;
  balance: number;
  pending: number;
  placed: number;
  /** Pods that gave up waiting. */
  rejected?: number;
  /** Over the day so far. */
  mean_active_nodes?: number;
  mean_wait_s?: number;
  totals: Totals;
  /** Permille of CPU requested on each node, where the server tells. */
  loads?: number[];
}

export interface Demo {
  clock: number;
  speed: number;
  paused?: boolean;
  over?: boolean;
  left: Side;
  right: Side;
  /** The day so far; events come without it. */
  history?: Moment[];
}

export interface Moment {
  clock: number;
  left: { active_nodes: number; kwh: number };
  right: { active_nodes: number; kwh: number };
}

export interface Page<T> {
  items: T[];
  next: string | null;
}
