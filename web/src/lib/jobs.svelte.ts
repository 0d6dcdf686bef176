/** Work that the server does meanwhile. */
import type { Job } from '../api';
import { get } from '../client';

const PAUSE_MS = 500;

/** Asks until a job is done or has failed. `job` is an id, or what has one. */
export async function follow<T>(
  job: string | { id: string },
  seen?: (job: Job<T>) => void,
  stop?: AbortSignal,
): Promise<Job<T> | null> {
  const id = typeof job === 'string' ? job : job.id;
  for (;;) {
    const state = await get<Job<T>>(`v1/jobs/${encodeURIComponent(id)}`);
    seen?.(state);
    if (state.state !== 'running') return state;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    if (stop?.aborted) return null;
  }
}
