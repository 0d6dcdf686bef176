/**
 * Plays the contract of the bridge with a synthetic cluster, with node's own http. A test fixture: nothing here is
 * shipped, and nothing that it says is measured.
 */
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { createGzip } from 'node:zlib';
import type { Role } from '../src/api';
import * as content from './content';
import { Problem, routes, type Options } from './routes';
import { Synthetic } from './synthetic';

export type { Options };

export interface Fixture {
  url: string;
  cluster: Synthetic;
  options: Options;
  close(): Promise<void>;
}

const DIST = new URL('../dist/', import.meta.url).pathname;
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};
/** As strict as the binary serves it. */
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export async function start(given: Partial<Options> = {}): Promise<Fixture> {
  const options: Options = {
    nodes: 120,
    pods: 1200,
    rate: 5,
    seed: 7,
    port: 0,
    mode: 'schedule',
    role: 'admin',
    tokens: {},
    delayMs: 0,
    prefix: '',
    forbidden: [],
    ...given,
  };
  const cluster = new Synthetic(options.nodes, options.pods, options.seed, 'models/energy');
  const streams = new Set<ServerResponse>();
  const sockets = new Set<Socket>();
  let events = 0;
  cluster.step(Math.min(60, options.nodes));
  cluster.changed.clear();

  const send = (event: string, data: unknown) => {
    if (!streams.size) return;
    const text = `event: ${event}\nid: ${++events}\ndata: ${JSON.stringify(data)}\n\n`;
    for (const stream of streams) stream.write(text);
  };
  const { answer, status, pending, day } = routes(options, cluster, send);
  const roleOf = (request: IncomingMessage): Role => {
    if (Object.keys(options.tokens).length === 0) return options.role;
    const role = options.tokens[(request.headers.authorization ?? '').replace(/^Bearer /, '')];
    if (!role) throw new Problem(401, 'Unauthorized', 'A token is needed, or this one is not known.');
    return role;
  };
  function file(path: string, request: IncomingMessage, response: ServerResponse): boolean {
    if (!path.startsWith(`${options.prefix}/`)) return false;
    const name = normalize(path.slice(options.prefix.length)).replace(/^\/+/, '') || 'index.html';
    const full = join(DIST, name);
    if (!full.startsWith(DIST) || !existsSync(full) || !statSync(full).isFile()) return false;
    const headers: Record<string, string> = {
      'content-type': TYPES[extname(full)] ?? 'application/octet-stream',
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
    };
    const zip = (request.headers['accept-encoding'] ?? '').includes('gzip');
    response.writeHead(200, zip ? { ...headers, 'content-encoding': 'gzip' } : headers);
    const stream = createReadStream(full);
    (zip ? stream.pipe(createGzip()) : stream).pipe(response);
    return true;
  }

  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    if (request.method === 'GET' && file(pathname, request, response)) return;
    const path =
      options.prefix && pathname.startsWith(`${options.prefix}/`) ? pathname.slice(options.prefix.length) : pathname;
    let text = '';
    for await (const chunk of request) text += chunk;
    if (options.delayMs) await new Promise((resolve) => setTimeout(resolve, options.delayMs));
    try {
      const role = roleOf(request);
      if (options.forbidden.some((one) => path.startsWith(one)))
        throw new Problem(403, 'Forbidden', `Your role may not read ${path}.`);
      if (path === '/v1/events') {
        response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
        response.write(
          `event: hello\nid: ${++events}\ndata: ${JSON.stringify({ revision: cluster.revision, status: status(role) })}\n\n`,
        );
        streams.add(response);
        return void response.on('close', () => streams.delete(response));
      }
      if (path.endsWith('/report'))
        return void response.writeHead(200, { 'content-type': 'text/html' }).end(content.report);
      const value = answer(request.method ?? 'GET', path, searchParams, text ? JSON.parse(text) : null, role);
      const started = value !== null && typeof value === 'object' && 'job' in value;
      response.writeHead(started ? 202 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    } catch (error) {
      const { status, title, detail } =
        error instanceof Problem ? error : { status: 500, title: 'Internal Server Error', detail: String(error) };
      response
        .writeHead(status, { 'content-type': 'application/problem+json' })
        .end(JSON.stringify({ type: 'about:blank', title, status, detail }));
    }
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });

  let due = 0;
  let ticks = 0;
  const timer = setInterval(() => {
    ticks++;
    due += options.rate / 10;
    const made = cluster.step(Math.floor(due));
    due -= Math.floor(due);
    if (made.length) send('decision', { items: made });
    if (ticks % 3 === 0 && cluster.changed.size) {
      cluster.revision++;
      send('nodes', { revision: cluster.revision, changed: [...cluster.changed], gone: [] });
      cluster.changed.clear();
    }
    if (ticks % 20 === 0 && options.nodes) {
      const point = cluster.point(Math.floor(Date.now() / 1000), 2);
      cluster.points.push(point);
      send('measures', { point });
      send('pending', pending());
    }
    if (options.mode === 'demo' && ticks % 2 === 0) {
      if (!day.paused) day.clock = (day.clock + day.speed / 5) % 86_400;
      send('demo', content.demo(cluster, day.clock, day.speed, day.paused));
    }
  }, 100);

  await new Promise<void>((resolve) => server.listen(options.port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${options.prefix}/`,
    cluster,
    options,
    async close() {
      clearInterval(timer);
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
