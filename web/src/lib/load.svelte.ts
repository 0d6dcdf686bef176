/** Something read from the server once and again: its value, and why it could not be read. */
import { ApiError, get } from '../client';
import { app } from '../state.svelte';

export class Loaded<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<ApiError | null>(null);
  busy = $state(false);
  #asked = 0;

  constructor(private readonly path: () => string | null) {
    // Again when the path changes, and when the connection is back. Who may not read the stream may read the rest.
    $effect(() => {
      const asked = this.path();
      const forbidden = app.link === 'refused' && app.linkError?.status === 403;
      if (asked && (app.link === 'live' || forbidden)) void this.reload();
    });
  }

  async reload(): Promise<void> {
    const path = this.path();
    if (!path) return;
    const asked = ++this.#asked;
    this.busy = true;
    try {
      const value = await get<T>(path);
      if (asked !== this.#asked) return;
      this.value = value;
      this.error = null;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (asked === this.#asked) this.error = error;
    } finally {
      if (asked === this.#asked) this.busy = false;
    }
  }
}
