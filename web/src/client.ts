/** One way to ask the server: every failure becomes an `ApiError` that says what was tried and what a person can do. */

const TOKEN = 'plimsoll-token';

/** What went wrong: `0` is a server that does not answer at all. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly what: string,
    message: string,
  ) {
    super(message);
  }
}

const base = new URL(
  (globalThis.document?.querySelector<HTMLMetaElement>('meta[name=plimsoll-api]')?.content ?? '.').replace(/\/?$/, '/'),
  globalThis.document?.baseURI ?? 'http://localhost/',
);

export const url = (path: string) => new URL(path.replace(/^\//, ''), base).href;

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value: string) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

interface Listener {
  unauthorised(hadToken: boolean): void;
  waiting(path: string, since: number | null): void;
}
let listener: Listener | null = null;

/** Whoever shows the sign-in dialog and the note about a slow server. */
export const listen = (to: Listener) => (listener = to);

/** After this long without an answer the user is told that the server is slow. */
const SLOW_MS = 1500;
const TIMEOUT_MS = 30_000;

/** Asks, with the token where there is one; the answer is one of success, or an `ApiError` is thrown. */
export async function ask(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { accept: 'application/json, application/problem+json' };
  const secret = token.get();
  if (secret) headers.authorization = `Bearer ${secret}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  let response: Response;
  try {
    const init: RequestInit = { method, headers, cache: 'no-store' };
    if (body !== undefined) init.body = JSON.stringify(body);
    if (signal) init.signal = signal;
    response = await fetch(url(path), init);
  } catch (error) {
    if (signal?.aborted && signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError')
      throw new ApiError(0, path, `No answer from ${path} within ${TIMEOUT_MS / 1000} seconds.`);
    if (signal?.aborted) throw error;
    throw new ApiError(0, path, 'The server does not answer. Is it running, and can this machine reach it?');
  }
  if (response.ok) return response;
  if (response.status === 401) listener?.unauthorised(secret !== null);
  throw new ApiError(response.status, path, await problem(response));
}

/** The words of an RFC 9457 answer, or ours where there are none. */
async function problem(response: Response): Promise<string> {
  try {
    const { title, detail } = (await response.json()) as { title?: string; detail?: string };
    if (detail || title) return detail ?? title ?? '';
  } catch {
    // A proxy in between answers with HTML.
  }
  return response.status === 403
    ? 'Your role does not allow this.'
    : `The server answered ${response.status} ${response.statusText}.`;
}

async function json<T>(method: string, path: string, body?: unknown): Promise<T> {
  const slow = setTimeout(() => listener?.waiting(path, performance.now() - SLOW_MS), SLOW_MS);
  try {
    const response = await ask(method, path, body, AbortSignal.timeout(TIMEOUT_MS));
    return (response.status === 204 ? null : await response.json()) as T;
  } finally {
    clearTimeout(slow);
    listener?.waiting(path, null);
  }
}

export const get = <T>(path: string) => json<T>('GET', path);
export const post = <T>(path: string, body?: unknown) => json<T>('POST', path, body);
export const put = <T>(path: string, body: unknown) => json<T>('PUT', path, body);
export const del = <T>(path: string) => json<T>('DELETE', path);

/** A path with the parameters that have a value. */
export function query(path: string, parameters: Record<string, string | number | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    if (value != null && value !== '') search.set(name, `${value}`);
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}
