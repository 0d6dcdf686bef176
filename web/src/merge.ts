/** Joins what was loaded with what the stream tells, without counting anything twice. */
import type { Decision } from './api';

/** The decisions there are, newest first: `come` is newer than `had` where they do not overlap. */
export function newest(come: Decision[], had: Decision[], keep: number): Decision[] {
  const known = new Set<Decision['id']>();
  const joined: Decision[] = [];
  for (const decision of [...come, ...had]) {
    if (known.has(decision.id)) continue;
    known.add(decision.id);
    joined.push(decision);
    if (joined.length === keep) break;
  }
  return joined;
}

/** Points that were loaded, and those of the stream that come after the last of them. */
export function after<T>(loaded: readonly T[], streamed: readonly T[], order: (point: T) => number): T[] {
  const last = loaded.at(-1);
  return last === undefined ? [...streamed] : [...loaded, ...streamed.filter((point) => order(point) > order(last))];
}
