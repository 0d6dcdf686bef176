/** The fixture's answers to every route of the contract but the stream and the files. */
import type { Job, Policies, Role, Status, Weights } from '../src/api';
import * as content from './content';
import type { Synthetic } from './synthetic';

export interface Options {
  nodes: number;
  pods: number;
  /** Decisions a second. */
  rate: number;
  seed: number;
  port: number;
  mode: Status['mode'];
  role: Role;
  /** With tokens, whoever has none is answered 401. */
  tokens: Record<string, Role>;
  /** Before every answer of the API. */
  delayMs: number;
  /** Where the dashboard lies, as `/ui`. */
  prefix: string;
  /** Paths that are answered 403. */
  forbidden: string[];
}

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
  ) {
    super(detail);
  }
}

/** The routes of one fixture; `send` tells the streams. */
export function routes(options: Options, cluster: Synthetic, send: (event: string, data: unknown) => void) {
  let policies: Policies = content.policies();
  let before = 'best-fit';
  const rewards = content.rewards();
  const training = content.training();
  const recordings = [
    { name: 'monday', state: 'done', pods: 18_204, seconds: 86_400, path: 'recordings/monday.csv.gz' },
  ];
  const jobs = new Map<string, { started: number; seconds: number; kind: string; result: unknown }>();
  const day = { clock: 8 * 3600, speed: 240, paused: false };
  const started = Date.now();

  const pending = () => {
    const counts = { active: 0, backoff: 0, unschedulable: 0, gated: 0 };
    for (const pod of cluster.pendingPods) counts[pod.queue]++;
    return counts;
  };
  const status = (role: Role): Status => ({
    version: '0.1.0',
    role,
    mode: options.mode,
    leader: true,
    ready: true,
    uptime_seconds: (Date.now() - started) / 1000,
    policy: policies.active,
    training: {
      enabled: true,
      running: false,
      interval: 5000,
      placements_since: cluster.placed,
      episodes: 212,
      loss: 0.021,
    },
    pending: pending(),
    placed_total: cluster.placed,
    decision_ms: { p50: 0.31, p99: 0.86 },
    started: new Date(started).toISOString(),
  });
  const job = (kind: string, seconds: number, result: unknown) => {
    const id = `job-${jobs.size + 1}`;
    jobs.set(id, { started: Date.now(), seconds, kind, result });
    return { job: id };
  };
  const paged = <T>(items: T[], query: URLSearchParams) => {
    const limit = Number(query.get('limit') ?? 100);
    const from = Number(query.get('cursor') ?? 0);
    return { items: items.slice(from, from + limit), next: from + limit < items.length ? `${from + limit}` : null };
  };
  const change = (value: Partial<Policies>) => {
    if (value.active && value.active !== policies.active) before = policies.active;
    policies = { ...policies, ...value };
    send('policy', policies);
    return policies;
  };

  function answer(method: string, path: string, query: URLSearchParams, body: any, role: Role): unknown {
    const [, group, id, action] =
      path.match(/^\/v1\/(\w[\w-]*)(?:\/(.+?))?(?:\/(activate|shadow|report|stop))?$/) ?? [];
    if (method !== 'GET' && role !== 'admin')
      throw new Problem(403, 'Forbidden', 'This needs the role admin; your token has viewer.');
    switch (`${method} ${group ? `/v1/${group}` : path}`) {
      case 'GET /health':
        return { status: 'ok' };
      case 'GET /status':
        return status(role);
      case 'GET /config':
        return content.config;
      case 'GET /openapi.json':
        return { openapi: '3.1.0', info: { title: 'Plimsoll', version: '0.1.0' }, paths: {} };
      case 'GET /cluster/state':
        return {
          at: new Date().toISOString(),
          revision: cluster.revision,
          nodes: cluster.nodes,
          totals: cluster.totals(),
        };
      case 'GET /cluster/nodes':
        return paged(cluster.nodes, query);
      case 'POST /training/trigger':
        return job('training', 2, null);
      case 'POST /model/save':
        return { path: body.path ?? 'models/saved' };
      case 'POST /model/load':
        return { policy: change({ active: body.path }).active };
      case 'GET /v1/decisions': {
        if (id) {
          const decision = cluster.decisions.find((one) => `${one.id}` === id);
          if (!decision) throw new Problem(404, 'Not Found', `There is no decision ${id}.`);
          return cluster.detail(decision);
        }
        const wants = (field: string, value: string | null) =>
          !query.get(field) || (value ?? '').includes(query.get(field) as string);
        return paged(
          cluster.decisions.filter(
            (one) =>
              wants('namespace', one.namespace) &&
              wants('pod', one.pod) &&
              wants('node', one.node) &&
              wants('outcome', one.outcome),
          ),
          query,
        );
      }
      case 'GET /v1/pending':
        return paged(cluster.pendingPods, query);
      case 'POST /v1/what-if': {
        const decision = cluster.decisions[0];
        if (!decision) throw new Problem(503, 'Service Unavailable', 'There is no node.');
        return {
          ...cluster.detail(decision),
          namespace: body.pod?.metadata?.namespace ?? 'default',
          pod: body.pod?.metadata?.name ?? 'pod',
        };
      }
      case 'GET /v1/policies':
        return policies;
      case 'POST /v1/policies': {
        const name = decodeURIComponent(id ?? '');
        if (name === 'rollback') return change({ active: before });
        if (!policies.items.some((one) => one.name === name))
          throw new Problem(404, 'Not Found', `There is no policy ${name}.`);
        return action === 'activate' ? change({ active: name }) : change({ shadow: name });
      }
      case 'DELETE /v1/policies':
        return change({ shadow: null });
      case 'PUT /v1/policies':
        return change({ trust: body.trust });
      case 'GET /v1/rewards':
        return rewards;
      case 'PUT /v1/rewards': {
        const profile = rewards.profiles.find((one) => one.name === body.profile);
        rewards.weights = profile?.weights ?? body.weights;
        rewards.profile = profile?.name ?? null;
        return rewards;
      }
      case 'POST /v1/rewards': {
        const w = body.weights as Weights;
        const now = { watts: 18_400, active_nodes: 71.2, balance: 0.231, latency_ms: 17.4, refused: 0 };
        const then = {
          watts: 18_400 * (1.06 - 0.6 * w.energy),
          active_nodes: 71.2 * (1.04 - 0.4 * w.energy),
          balance: 0.231 * (1.25 - w.balance),
          latency_ms: 17.4 * (1.1 - 0.4 * w.latency),
          refused: 0,
        };
        return job('preview', 1.2, { now, then, pods: 2400, seconds: 3, ranks: true });
      }
      case 'GET /v1/jobs': {
        const found = jobs.get(id ?? '');
        if (!found) throw new Problem(404, 'Not Found', `There is no job ${id}.`);
        const progress = Math.min(1, (Date.now() - found.started) / 1000 / found.seconds);
        return {
          id,
          kind: found.kind,
          state: progress < 1 ? 'running' : 'done',
          progress,
          message: null,
          result: progress < 1 ? null : found.result,
        } as Job;
      }
      case 'GET /v1/measures': {
        const from = Date.now() / 1000 - Number(query.get('minutes') ?? 60) * 60;
        return { points: cluster.points.filter(({ at }) => at >= from) };
      }
      case 'GET /v1/training':
        return training;
      case 'GET /v1/experiments':
        return {
          items: [
            {
              name: 'thesis-1',
              title: 'The thesis, seed 1',
              at: '2026-11-14T10:00:00Z',
              path: 'reports/thesis-1.html',
            },
          ],
          kinds: ['thesis', 'qtable'],
        };
      case 'POST /v1/experiments':
        return job(body.kind, 1.5, null);
      case 'GET /v1/recordings':
        return { items: recordings };
      case 'POST /v1/recordings': {
        const one = recordings.find(({ name }) => name === id);
        if (action === 'stop' && one) one.state = 'done';
        else
          recordings.unshift({
            name: body.name,
            state: 'running',
            pods: 0,
            seconds: 0,
            path: `recordings/${body.name}.csv.gz`,
          });
        return recordings[0];
      }
      case 'GET /v1/demo':
      case 'POST /v1/demo':
        if (options.mode !== 'demo') throw new Problem(404, 'Not Found', 'This is no demo.');
        if (body) Object.assign(day, body);
        return content.demo(cluster, day.clock, day.speed, day.paused);
    }
    const name = path.match(/^\/cluster\/nodes\/(.+)$/)?.[1];
    const held = name && cluster.held.find(({ node }) => node.name === decodeURIComponent(name));
    if (!held) throw new Problem(404, 'Not Found', `There is nothing at ${path}.`);
    const { node, pods } = held;
    return {
      ...node,
      pods,
      labels: {
        'kubernetes.io/hostname': node.name,
        'topology.kubernetes.io/zone': node.zone,
        'kubernetes.io/arch': 'amd64',
      },
      taints: node.schedulable ? [] : [{ key: 'node.kubernetes.io/unschedulable', value: null, effect: 'NoSchedule' }],
      telemetry: [
        { metric: 'cpu_percent', value: node.usage_cpu, age_seconds: 4, state: 'fresh' },
        { metric: 'power_watts', value: node.watts, age_seconds: 95, state: 'stale' },
        { metric: 'tcp_established', value: null, age_seconds: null, state: 'missing' },
      ],
    };
  }

  return { answer, status, pending, day };
}
