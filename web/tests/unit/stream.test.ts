import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoff, Parser } from '../../src/stream';

const text =
  'event: hello\nid: 1\ndata: {"a":1}\n\n: still here\n\nevent: nodes\r\nid: 2\r\ndata: {"b":\r\ndata: 2}\r\n\r\ndata: bare\n\n';
const whole = [
  { event: 'hello', id: '1', data: '{"a":1}' },
  { event: 'nodes', id: '2', data: '{"b":\n2}' },
  { event: 'message', id: '2', data: 'bare' },
];

test('a stream is read alike, wherever its pieces are cut', () => {
  for (let size = 1; size <= text.length; size++) {
    const parser = new Parser();
    const got = [];
    for (let at = 0; at < text.length; at += size) got.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(got, whole, `in pieces of ${size}`);
  }
});

test('an event without its empty line is not told', () => {
  assert.deepEqual(new Parser().push('event: nodes\ndata: {}\n'), []);
});

test('attempts come ever more slowly, but at least every 20 seconds', () => {
  const pauses = Array.from({ length: 8 }, (_, at) => backoff(at, () => 0));
  assert.deepEqual(pauses, [500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
  assert.equal(
    backoff(99, () => 1),
    20_000,
  );
});
