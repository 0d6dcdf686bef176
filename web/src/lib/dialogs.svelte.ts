/** Questions before something changes, and short notes after. One of each kind at a time is shown by `Overlays.svelte`. */
import { ApiError } from '../client';

export interface Question {
  title: string;
  /** What will happen, a sentence each. */
  says: string[];
  action: string;
}
export interface Note {
  id: number;
  kind: 'done' | 'failed';
  text: string;
}

class Overlays {
  question = $state.raw<(Question & { answer(yes: boolean): void }) | null>(null);
  notes = $state.raw<Note[]>([]);
}
export const overlays = new Overlays();

export function confirm(question: Question): Promise<boolean> {
  overlays.question?.answer(false);
  return new Promise((resolve) => {
    overlays.question = {
      ...question,
      answer(yes) {
        overlays.question = null;
        resolve(yes);
      },
    };
  });
}

let ids = 0;
/** Failures stay until they are dismissed; the rest goes after a while. */
export function note(kind: Note['kind'], text: string): void {
  const id = ++ids;
  overlays.notes = [...overlays.notes.filter((other) => other.text !== text), { id, kind, text }].slice(-3);
  if (kind === 'done') setTimeout(() => dismiss(id), 6000);
}

export const dismiss = (id: number) => (overlays.notes = overlays.notes.filter((other) => other.id !== id));

/** Runs what a button does: says so when it is done, and what failed when it is not. */
export async function attempt<T>(what: string, run: () => Promise<T>, done?: string): Promise<T | undefined> {
  try {
    const result = await run();
    if (done) note('done', done);
    return result;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 401)
      note('failed', `${what} failed${error.status ? ` (${error.status})` : ''}: ${error.message}`);
    return undefined;
  }
}
