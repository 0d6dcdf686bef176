/** The views, in the order of the navigation, each loaded when it is first opened. */
import type { Component } from 'svelte';

export interface Entry {
  key: string;
  label: string;
  /** Pressed after `g`. */
  shortcut: string;
  load: () => Promise<{ default: Component }>;
  demoOnly?: boolean;
}

export const views: Entry[] = [
  { key: 'demo', label: 'Demo', shortcut: 'o', load: () => import('./views/Demo.svelte'), demoOnly: true },
  { key: 'cluster', label: 'Cluster', shortcut: 'c', load: () => import('./views/Cluster.svelte') },
  { key: 'decisions', label: 'Decisions', shortcut: 'd', load: () => import('./views/Decisions.svelte') },
  { key: 'pending', label: 'Pending', shortcut: 'p', load: () => import('./views/Pending.svelte') },
  { key: 'measures', label: 'Measures', shortcut: 'm', load: () => import('./views/Measures.svelte') },
  { key: 'policies', label: 'Policies', shortcut: 'l', load: () => import('./views/Policies.svelte') },
  { key: 'training', label: 'Training', shortcut: 't', load: () => import('./views/Training.svelte') },
  { key: 'rewards', label: 'Rewards', shortcut: 'r', load: () => import('./views/Rewards.svelte') },
  { key: 'experiments', label: 'Experiments', shortcut: 'e', load: () => import('./views/Experiments.svelte') },
  { key: 'system', label: 'System', shortcut: 's', load: () => import('./views/System.svelte') },
];
