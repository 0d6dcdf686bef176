/** A seeded cluster that lives: pods come and go, nodes fill by best fit. For tests only; no scheduler decides like this. */
import type { Decision, DecisionDetail, Node, NodePod, PendingPod, Point, Totals } from '../src/api';

export function random(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const kinds = [
  { cores: 16, gib: 64, idle: 82, full: 214 },
  { cores: 32, gib: 128, idle: 118, full: 352 },
  { cores: 64, gib: 256, idle: 171, full: 547 },
];
const apps = [
  'cart',
  'search',
  'checkout',
  'billing',
  'render',
  'ingest',
  'report',
  'login',
  'mail',
  'index',
  'thumbs',
  'quote',
];
const spaces = ['shop', 'media', 'data', 'platform'];
const zones = ['eu-north-1a', 'eu-north-1b', 'eu-north-1c'];
const GIB = 2 ** 30;

interface Held {
  node: Node;
  kind: (typeof kinds)[number];
  pods: NodePod[];
}

export class Synthetic {
  readonly held: Held[] = [];
  readonly decisions: Decision[] = [];
  readonly changed = new Set<Node>();
  readonly pendingPods: PendingPod[] = [];
  readonly points: Point[] = [];
  revision = 1;
  placed = 0;
  saved = 0;
  #random: () => number;
  #mean: number;
  #pods = 0;
  #ids = 0;

  constructor(
    nodes: number,
    private readonly target: number,
    seed: number,
    private readonly policy: string,
  ) {
    this.#random = random(seed);
    let total = 0;
    for (let at = 0; at < nodes; at++) {
      const kind = kinds[Math.floor(this.#random() * 3)] as (typeof kinds)[number];
      total += kind.cores * 1000;
      this.held.push({ kind, pods: [], node: this.#node(at, kind) });
    }
    this.#mean = nodes ? (total * 0.46) / Math.max(1, target) : 0;
    while (this.#pods < target && nodes) if (!this.#place(true)) break;
    for (const held of this.held) this.#refresh(held);
    if (nodes) this.#waiting();
    const now = Math.floor(Date.now() / 1000);
    for (let ago = 3600; ago > 0 && nodes; ago -= 10) this.points.push(this.point(now - ago, 10));
  }

  get nodes(): Node[] {
    return this.held.map(({ node }) => node);
  }

  /** Lets so many pods come, and as many go. */
  step(count: number): Decision[] {
    const made: Decision[] = [];
    for (let at = 0; at < count && this.held.length; at++) {
      if (this.#pods >= this.target) this.#leave();
      const decision = this.#place(false);
      if (decision) made.push(decision);
    }
    for (const decision of made) this.decisions.unshift(decision);
    this.decisions.length = Math.min(this.decisions.length, 2000);
    return made;
  }

  detail(decision: Decision): DecisionDetail {
    const r = random(Number(decision.id));
    const names = this.nodes.map(({ name }) => name);
    const pick = () => names[Math.floor(r() * names.length)] ?? 'node-0';
    const best = [...new Set([decision.node ?? pick(), ...Array.from({ length: 12 }, pick)])].slice(0, 10);
    let model = 62 + r() * 20;
    const scores = best.map((node) => {
      model -= 1 + r() * 6;
      const parts = [
        { plugin: 'Model', score: Math.max(4, model), weight: 3 },
        { plugin: 'NodeResourcesFit', score: 40 + r() * 30, weight: 1 },
        { plugin: 'PodTopologySpread', score: 60 + r() * 10, weight: 2 },
        { plugin: 'ImageLocality', score: r() * 20, weight: 1 },
      ];
      return { node, parts, score: parts.reduce((sum, { score, weight }) => sum + score * weight, 0) };
    });
    scores.sort((a, b) => (a.node === decision.node ? -1 : b.node === decision.node ? 1 : b.score - a.score));
    const gone = decision.evaluated - decision.feasible;
    const cut = Math.floor(gone * 0.8);
    return {
      ...decision,
      scores: decision.outcome === 'placed' ? scores : [],
      refused: [
        { reason: 'Insufficient cpu', plugin: 'NodeResourcesFit', count: cut, nodes: names.slice(0, 5) },
        {
          reason: 'node(s) had untolerated taint(s)',
          plugin: 'TaintToleration',
          count: gone - cut,
          nodes: names.slice(-3),
        },
      ].filter(({ count }) => count > 0),
    };
  }

  totals(): Totals {
    const shares = this.nodes.map(({ cpu_m }) => cpu_m[0] / cpu_m[1]);
    const mean = shares.reduce((sum, share) => sum + share, 0) / (shares.length || 1);
    const sum = (value: (node: Node) => number) => this.nodes.reduce((all, node) => all + value(node), 0);
    const awake = this.held.reduce((all, { kind }) => all + kind.idle, 0);
    const watts = sum((node) => node.watts ?? 0);
    const load = this.held.reduce(
      (all, { kind, node }) => all + ((kind.full - kind.idle) * 0.7 * node.cpu_m[0]) / node.cpu_m[1],
      0,
    );
    return {
      nodes: this.nodes.length,
      active_nodes: this.held.filter(({ pods }) => pods.length > 0).length,
      pods: this.#pods,
      cpu_m: [sum((node) => node.cpu_m[0]), sum((node) => node.cpu_m[1])],
      memory: [sum((node) => node.memory[0]), sum((node) => node.memory[1])],
      watts: this.nodes.length ? watts : null,
      watts_default: this.nodes.length ? awake + load : null,
      balance: Math.sqrt(shares.reduce((all, share) => all + (share - mean) ** 2, 0) / (shares.length || 1)),
      latency_ms: this.nodes.length ? 17.4 : null,
    };
  }

  point(at: number, seconds: number): Point {
    const totals = this.totals();
    const wave = 1 + 0.06 * Math.sin(at / 400) + 0.01 * (this.#random() - 0.5);
    const watts = (totals.watts ?? 0) * wave;
    const other = (totals.watts_default ?? 0) * (1 + 0.03 * Math.sin(at / 400));
    this.saved += ((other - watts) * seconds) / 3.6e6;
    return {
      at,
      watts,
      watts_default: other,
      active_nodes: Math.round(totals.active_nodes * wave),
      active_nodes_default: Math.round(totals.nodes * 0.985),
      balance: (totals.balance ?? 0) * wave,
      balance_default: 0.08 * wave,
      latency_ms: 17.4 * (1 + 0.04 * Math.sin(at / 200)),
      latency_ms_default: 22.6 * (1 + 0.03 * Math.sin(at / 300)),
      pods: totals.pods,
      saving_kwh: this.saved,
      placed_per_second: 4 + 2 * Math.sin(at / 300),
    };
  }

  #node(at: number, kind: Held['kind']): Node {
    const r = this.#random;
    return {
      name: `node-${String(at + 1).padStart(4, '0')}`,
      zone: zones[at % zones.length] as string,
      ready: r() > 0.004,
      schedulable: r() > 0.008,
      cpu_m: [0, kind.cores * 1000],
      memory: [0, kind.gib * GIB],
      pods: [0, 110],
      gpu: [0, at % 50 === 0 ? 4 : 0],
      shares: [],
      usage_cpu: 0,
      usage_memory: 0,
      watts: 4,
      latency_ms: 8 + (at % 3) * 7 + r() * 6,
      price: kind.cores * 0.021,
    };
  }

  /** Best fit among a few, which leaves some nodes empty. */
  #place(quiet: boolean): Decision | null {
    const r = this.#random;
    const cpu = Math.max(50, Math.round((this.#mean * (0.25 + 1.5 * r())) / 50) * 50);
    const memory = Math.round(cpu * (1.5 + 2 * r())) * 2 ** 20;
    const app = apps[Math.floor(r() * apps.length)] as string;
    const name = `${app}-${Math.floor(r() * 1e9).toString(36)}-${Math.floor(r() * 1e6).toString(36)}`;
    const namespace = spaces[Math.floor(r() * spaces.length)] as string;
    let best: Held | null = null;
    for (let tried = 0; tried < 8; tried++) {
      const held = this.held[Math.floor(r() * this.held.length)] as Held;
      const room = held.node.cpu_m[1] - held.node.cpu_m[0] - cpu;
      if (room < 0 || !held.node.ready || !held.node.schedulable || held.node.memory[0] + memory > held.node.memory[1])
        continue;
      if (!best || fill(held) > fill(best)) best = held;
    }
    if (best) {
      best.pods.push({
        namespace,
        name,
        cpu_m: cpu,
        memory,
        priority: 0,
        owner: `Deployment/${app}`,
        since: new Date(Date.now() - (quiet ? r() * 86_400_000 : 0)).toISOString(),
      });
      best.node.cpu_m[0] += cpu;
      best.node.memory[0] += memory;
      this.#pods++;
      if (!quiet) this.#refresh(best);
    }
    if (quiet) return best ? ({} as Decision) : null;
    if (best) this.placed++;
    const fell = r() < 0.02;
    const others = this.held[Math.floor(r() * this.held.length)]?.node.name ?? null;
    return {
      id: ++this.#ids,
      at: new Date().toISOString(),
      namespace,
      pod: name,
      outcome: best ? 'placed' : 'refused',
      node: best?.node.name ?? null,
      policy: this.policy,
      decided_by: fell ? 'heuristic' : 'model',
      fallback: fell ? 'unlike-training' : null,
      milliseconds: 0.2 + r() * 0.6,
      feasible: best ? Math.floor(this.held.length * (0.3 + 0.4 * r())) : 0,
      evaluated: this.held.length,
      message: best ? null : `0/${this.held.length} nodes are available: ${this.held.length} Insufficient cpu.`,
      shadow_node: r() < 0.3 ? (best?.node.name ?? null) : others,
    };
  }

  #leave(): void {
    for (let tried = 0; tried < 20; tried++) {
      const held = this.held[Math.floor(this.#random() * this.held.length)] as Held;
      const pod = held.pods.splice(Math.floor(this.#random() * held.pods.length), 1)[0];
      if (!pod) continue;
      held.node.cpu_m[0] -= pod.cpu_m;
      held.node.memory[0] -= pod.memory;
      this.#pods--;
      return this.#refresh(held);
    }
  }

  #refresh({ node, pods, kind }: Held): void {
    const share = node.cpu_m[0] / node.cpu_m[1];
    node.pods[0] = pods.length;
    node.shares = pods
      .map(({ cpu_m }) => Math.round((cpu_m / node.cpu_m[1]) * 1000))
      .sort((a, b) => b - a)
      .slice(0, 64);
    node.usage_cpu = Math.round(share * 68);
    node.usage_memory = Math.round((node.memory[0] / node.memory[1]) * 74);
    node.watts = pods.length ? kind.idle + (kind.full - kind.idle) * 0.7 * share : 4;
    this.changed.add(node);
  }

  #waiting(): void {
    const n = this.held.length;
    const reasons: [PendingPod['queue'], string, string[]][] = [
      [
        'unschedulable',
        `0/${n} nodes are available: ${n - 12} Insufficient cpu, 12 node(s) had untolerated taint(s).`,
        ['NodeResourcesFit', 'TaintToleration'],
      ],
      [
        'unschedulable',
        `0/${n} nodes are available: ${n} node(s) didn't match Pod's node affinity/selector.`,
        ['NodeAffinity'],
      ],
      [
        'backoff',
        `0/${n} nodes are available: ${n} node(s) didn't have free ports for the requested pod ports.`,
        ['NodePorts'],
      ],
      ['gated', 'waiting for scheduling gates: [example.com/quota]', ['SchedulingGates']],
    ];
    for (let at = 0; at < 17; at++) {
      const [queue, message, plugins] = reasons[Math.floor(this.#random() * 4)] as (typeof reasons)[number];
      const since = new Date(Date.now() - this.#random() * 4e6).toISOString();
      this.pendingPods.push({
        namespace: spaces[at % 4] as string,
        name: `${apps[at % 12]}-waits-${at}`,
        queue,
        attempts: 1 + (at % 7),
        since,
        message,
        plugins,
      });
    }
  }
}

/** Fuller is better, up to a limit of the node's own, as the map should show loads of all kinds. */
function fill({ node, pods }: Held): number {
  const share = node.cpu_m[0] / node.cpu_m[1];
  return pods.length === 0 ? -1 : share > 0.45 + ((node.latency_ms ?? 0) % 1) / 2 ? -0.5 : share;
}
