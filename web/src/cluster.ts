/**
 * The nodes as the map draws them: a plain store that no framework watches, since thousands of nodes change in a
 * second. Whoever draws asks for what changed since it last looked.
 */
import type { Node, Totals } from './api';

export interface Change {
  /** Positions whose node changed, if the order of nodes is as before. */
  changed: Set<number>;
  /** Nodes came or went: positions mean something else now. */
  reordered: boolean;
}

export class Cluster {
  nodes: Node[] = [];
  revision = 0;
  #position = new Map<string, number>();
  #watchers = new Set<Change>();

  /** Everything anew. */
  load(nodes: Node[], revision: number): void {
    this.nodes = [...nodes].sort(byZoneAndName);
    this.revision = revision;
    this.#index();
  }

  /** What a `nodes` event tells; an event older than what is known is ignored. */
  merge(revision: number, changed: Node[], gone: string[]): void {
    if (revision < this.revision) return;
    this.revision = revision;
    const come: Node[] = [];
    for (const node of changed) {
      const at = this.#position.get(node.name);
      if (at === undefined) come.push(node);
      else if (this.nodes[at]?.zone === node.zone) {
        this.nodes[at] = node;
        for (const watcher of this.#watchers) watcher.changed.add(at);
      } else come.push(node);
    }
    const leave = new Set(gone.filter((name) => this.#position.has(name)));
    if (come.length === 0 && leave.size === 0) return;
    for (const node of come) leave.add(node.name);
    this.nodes = [...this.nodes.filter((node) => !leave.has(node.name)), ...come].sort(byZoneAndName);
    this.#index();
  }

  get(name: string): Node | undefined {
    const at = this.#position.get(name);
    return at === undefined ? undefined : this.nodes[at];
  }

  position(name: string): number {
    return this.#position.get(name) ?? -1;
  }

  /** A record that gathers changes until its holder clears it. */
  watch(): Change & { stop(): void } {
    const change: Change = { changed: new Set(), reordered: true };
    this.#watchers.add(change);
    return Object.assign(change, { stop: () => void this.#watchers.delete(change) });
  }

  #index(): void {
    this.#position = new Map(this.nodes.map((node, at) => [node.name, at]));
    for (const watcher of this.#watchers) {
      watcher.reordered = true;
      watcher.changed.clear();
    }
  }
}

const collator = new Intl.Collator('en', { numeric: true });

/** Zones in order, and `node-10` after `node-9`. */
export function byZoneAndName(a: Node, b: Node): number {
  return collator.compare(a.zone ?? '', b.zone ?? '') || collator.compare(a.name, b.name);
}

/** The totals of nodes, for the figures above the map between two `Totals` of the server. */
export function sum(nodes: Node[]): Totals {
  const totals: Totals = {
    nodes: nodes.length,
    active_nodes: 0,
    pods: 0,
    cpu_m: [0, 0],
    memory: [0, 0],
    watts: null,
    watts_default: null,
    balance: 0,
    latency_ms: null,
  };
  let mean = 0;
  let squares = 0;
  for (const { cpu_m, memory, pods, watts } of nodes) {
    const share = cpu_m[1] > 0 ? cpu_m[0] / cpu_m[1] : 0;
    mean += share;
    squares += share * share;
    if (pods[0] > 0) totals.active_nodes++;
    totals.pods += pods[0];
    totals.cpu_m[0] += cpu_m[0];
    totals.cpu_m[1] += cpu_m[1];
    totals.memory[0] += memory[0];
    totals.memory[1] += memory[1];
    if (watts !== null) totals.watts = (totals.watts ?? 0) + watts;
  }
  const n = nodes.length || 1;
  totals.balance = Math.sqrt(Math.max(0, squares / n - (mean / n) ** 2));
  return totals;
}
