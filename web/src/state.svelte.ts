/**
 * What the dashboard knows. Events of the stream gather here and are applied once a frame; the views read. Nodes are
 * in `cluster`, outside of what Svelte watches: `revision` says that they changed, at most four times a second.
 */
import type {
  ClusterState,
  Decision,
  Demo,
  Node,
  Pending,
  Point,
  Policies,
  Status,
  Totals,
  TrainingPoint,
} from './api';
import { ApiError, get, listen, token } from './client';
import { Cluster, sum } from './cluster';
import { newest } from './merge';
import { connect, type Connection, type Message } from './stream';

/** Decisions kept in the browser; older ones are asked of the server. */
const KEPT_DECISIONS = 500;
/** A day of measures, one each ten seconds. */
const KEPT_POINTS = 8640;
/** Text that changes faster than this cannot be read. */
const READABLE_MS = 250;

export type Link = 'connecting' | 'live' | 'lost' | 'refused';

class State {
  status = $state.raw<Status | null>(null);
  totals = $state.raw<Totals | null>(null);
  pending = $state.raw<Pending | null>(null);
  policies = $state.raw<Policies | null>(null);
  demo = $state.raw<Demo | null>(null);
  decisions = $state.raw<Decision[]>([]);
  /** Decisions of the last second. */
  rate = $state(0);
  /** Points that came by the stream, for the views to append to what they loaded. */
  points = $state.raw<Point[]>([]);
  trainingPoints = $state.raw<TrainingPoint[]>([]);
  /** Grows when nodes have changed, at most four times a second. */
  revision = $state(0);
  /** The first load of the cluster is done. */
  loaded = $state(false);
  loadError = $state.raw<ApiError | null>(null);

  link = $state<Link>('connecting');
  linkError = $state.raw<ApiError | null>(null);
  retryAt = $state<number | null>(null);
  lostSince = $state<number | null>(null);
  /** The server wants a token; `wrong` if it has refused one. */
  signIn = $state.raw<{ wrong: boolean } | null>(null);
  /** The path that takes long, and since when. */
  slow = $state.raw<{ path: string; since: number } | null>(null);

  readonly cluster = new Cluster();
  /** Called with the node of every placement, for the map's flashes. */
  readonly placed = new Set<(node: string) => void>();

  get role() {
    return this.status?.role ?? 'viewer';
  }
  /** Why this user may change nothing, or null. */
  get readOnly(): string | null {
    if (this.link === 'lost') return 'The server does not answer.';
    if (!this.status) return 'Not connected yet.';
    return this.status.role === 'admin' ? null : 'Your token has the role viewer; this needs admin.';
  }

  #connection: Connection | null = null;
  #queue: Message[] = [];
  #scheduled = false;
  #early: { revision: number; changed: Node[]; gone: string[] }[] | null = [];
  #loads = 0;
  #fresh: Decision[] = [];
  #times: number[] = [];
  #shown = 0;
  #showTimer: ReturnType<typeof setTimeout> | undefined;

  start(): void {
    listen({
      unauthorised: (hadToken) => (this.signIn = { wrong: hadToken }),
      waiting: (path, since) => {
        if (since !== null) this.slow = { path, since };
        else if (this.slow?.path === path) this.slow = null;
      },
    });
    this.#connection = connect('v1/events', {
      open: () => this.#opened(),
      message: (message) => this.#enqueue(message),
      closed: (error, retryAt) => {
        this.link = error.status === 401 || error.status === 403 ? 'refused' : 'lost';
        this.linkError = error;
        this.retryAt = retryAt;
        this.lostSince ??= Date.now();
        this.rate = 0;
      },
    });
  }

  useToken(value: string): void {
    token.set(value);
    this.signIn = null;
    this.link = 'connecting';
    this.#connection?.retryNow();
  }

  signOut(): void {
    token.forget();
    location.reload();
  }

  retry(): void {
    this.link = 'connecting';
    this.#connection?.retryNow();
  }

  async reload(): Promise<void> {
    this.#early ??= [];
    const asked = ++this.#loads;
    try {
      const state = await get<ClusterState>('cluster/state');
      if (asked !== this.#loads) return;
      this.cluster.load(state.nodes, state.revision);
      for (const { revision, changed, gone } of this.#early ?? []) this.cluster.merge(revision, changed, gone);
      this.totals = state.totals;
      this.loaded = true;
      this.loadError = null;
      this.#show();
    } catch (error) {
      if (error instanceof ApiError) this.loadError = error;
      else throw error;
    } finally {
      // Until the last answer is there, what the stream tells waits for it.
      if (asked === this.#loads) this.#early = null;
    }
  }

  #opened(): void {
    this.link = 'live';
    this.linkError = null;
    this.retryAt = null;
    this.lostSince = null;
    this.signIn = null;
    void this.reload();
    get<Status>('status').then(
      (status) => {
        this.status = status;
        this.pending = status.pending;
        if (status.mode === 'demo')
          get<Demo>('v1/demo')
            .then((demo) => (this.demo = demo))
            .catch(() => undefined);
      },
      () => undefined,
    );
    get<{ items: Decision[] }>('v1/decisions?limit=100').then(
      ({ items }) => {
        this.decisions = newest(this.decisions, items, KEPT_DECISIONS);
      },
      () => undefined,
    );
  }

  #enqueue(message: Message): void {
    this.#queue.push(message);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // A hidden tab has no frames; what came is applied all the same, so that nothing piles up.
    if (document.hidden) setTimeout(() => this.#flush(), 250);
    else requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const queue = this.#queue;
    this.#queue = [];
    for (const { event, data } of queue) {
      try {
        this.#apply(event, JSON.parse(data));
      } catch (error) {
        // One event that cannot be read must not cost those after it.
        console.error(`event ${event}:`, error);
      }
    }
    const now = performance.now();
    if (now - this.#shown >= READABLE_MS) this.#show();
    else this.#showTimer ??= setTimeout(() => this.#show(), READABLE_MS - (now - this.#shown));
  }

  #apply(event: string, data: any): void {
    switch (event) {
      case 'hello':
        if (data.status) this.status = data.status;
        return;
      case 'nodes':
        if (this.#early) this.#early.push(data);
        else this.cluster.merge(data.revision, data.changed ?? [], data.gone ?? []);
        if (data.totals) this.totals = data.totals;
        return;
      case 'decision': {
        const now = performance.now();
        for (const item of data.items as Decision[]) {
          this.#fresh.push(item);
          this.#times.push(now);
          if (item.node) for (const tell of this.placed) tell(item.node);
        }
        return;
      }
      case 'pending':
        this.pending = data;
        return;
      case 'measures':
        this.points = [...this.points, data.point as Point].slice(-KEPT_POINTS);
        return;
      case 'training':
        this.trainingPoints = [...this.trainingPoints, data.point as TrainingPoint].slice(-KEPT_POINTS);
        return;
      case 'policy':
        this.policies = data;
        if (this.status && data.active) this.status = { ...this.status, policy: data.active };
        return;
      case 'demo':
        this.demo = { history: this.demo?.history, ...data };
        return;
      case 'lost':
        void this.reload();
        return;
    }
  }

  /** Lets the views see what has changed, at a pace that can be read. */
  #show(): void {
    clearTimeout(this.#showTimer);
    this.#showTimer = undefined;
    const now = performance.now();
    this.#shown = now;
    if (this.#fresh.length) {
      this.decisions = newest(this.#fresh.reverse(), this.decisions, KEPT_DECISIONS);
      this.#fresh = [];
    }
    this.#times = this.#times.filter((time) => now - time < 2000);
    this.rate = this.#times.length / 2;
    if (this.loaded) {
      const last = this.points.at(-1);
      // The server tells totals with the state alone; in between they are those of the nodes as they are now.
      const known = this.totals;
      this.totals = {
        ...sum(this.cluster.nodes),
        watts_default: last?.watts_default ?? known?.watts_default ?? null,
        latency_ms: last?.latency_ms ?? known?.latency_ms ?? null,
      };
      if (this.totals.watts === null) this.totals.watts = last?.watts ?? known?.watts ?? null;
    }
    this.revision++;
  }
}

export const app = new State();
