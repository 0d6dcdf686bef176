/**
 * Server-sent events read with `fetch`, since `EventSource` cannot send a token. `Parser` is pure; `connect` keeps a
 * stream open with growing pauses between attempts.
 */
import { ApiError, ask } from './client';

export interface Message {
  event: string;
  id: string | null;
  data: string;
}

/** Takes text in pieces cut anywhere and gives back whole events. */
export class Parser {
  #rest = '';
  #event = '';
  #id: string | null = null;
  #data: string[] = [];

  push(chunk: string): Message[] {
    const out: Message[] = [];
    const text = this.#rest + chunk;
    // A carriage return at the end may be half of a line's end.
    const whole = text.endsWith('\r') ? text.slice(0, -1) : text;
    const lines = whole.split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? '') + text.slice(whole.length);
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length) out.push({ event: this.#event || 'message', id: this.#id, data: this.#data.join('\n') });
        this.#event = '';
        this.#data = [];
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') this.#event = value;
      else if (field === 'data') this.#data.push(value);
      else if (field === 'id') this.#id = value;
    }
    return out;
  }
}

/** Milliseconds to wait before the nth attempt after a failure: doubling from half a second to 15 s, spread by a third. */
export function backoff(attempt: number, random = Math.random): number {
  return Math.min(15_000, 500 * 2 ** Math.min(attempt, 5)) * (1 + random() / 3);
}

export interface Handlers {
  open(): void;
  message(message: Message): void;
  /** The stream ended; the next attempt is at `retryAt` (as `Date.now()`), never if null. */
  closed(error: ApiError, retryAt: number | null): void;
}

/** A server sends a comment or an event at least this often; one that is silent longer is taken for gone. */
const SILENCE_MS = 30_000;

export interface Connection {
  retryNow(): void;
  close(): void;
}

/** Keeps the stream at `path` open until `close`. A refusal (401, 403) is not tried again by itself. */
export function connect(path: string, handlers: Handlers): Connection {
  let closed = false;
  let attempt = 0;
  let wake: (() => void) | null = null;
  let abort = new AbortController();

  async function read(): Promise<never> {
    abort = new AbortController();
    const response = await ask('GET', path, undefined, abort.signal);
    if (!response.body) throw new ApiError(0, path, 'This browser cannot read streams.');
    handlers.open();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser();
    for (;;) {
      let silent: ReturnType<typeof setTimeout> | undefined;
      const silence = new Promise<never>((_, reject) => {
        silent = setTimeout(() => reject(new ApiError(0, path, 'The server fell silent.')), SILENCE_MS);
      });
      const { done, value } = await Promise.race([reader.read(), silence]).finally(() => clearTimeout(silent));
      if (done) throw new ApiError(0, path, 'The server ended the stream.');
      attempt = 0;
      for (const message of parser.push(value)) handlers.message(message);
    }
  }

  async function loop(): Promise<void> {
    while (!closed) {
      let error: ApiError;
      try {
        await read();
        return;
      } catch (caught) {
        error = caught instanceof ApiError ? caught : new ApiError(0, path, 'The connection to the server was lost.');
      }
      abort.abort();
      if (closed) return;
      const final = error.status === 401 || error.status === 403;
      const pause = backoff(attempt++);
      handlers.closed(error, final ? null : Date.now() + pause);
      await new Promise<void>((resolve) => {
        wake = resolve;
        if (!final) setTimeout(resolve, pause);
      });
    }
  }
  void loop();

  return {
    retryNow: () => wake?.(),
    close() {
      closed = true;
      abort.abort();
      wake?.();
    },
  };
}
