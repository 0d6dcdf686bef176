import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytes, change, cores, kwh, milliseconds, number, percent, span, watts } from '../../src/lib/format';
import { parse } from '../../src/route';

test('figures read as people write them', () => {
  const cases: [string, string][] = [
    [number(12345.6), '12,346'],
    [number(null), '–'],
    [number(NaN), '–'],
    [percent(0.4567, 1), '45.7 %'],
    [change(-27.33), '−27.3 %'],
    [change(3), '+3.0 %'],
    [watts(999), '999 W'],
    [watts(12_400), '12.4 kW'],
    [watts(2_400_000), '2.40 MW'],
    [kwh(1.5), '1.50 kWh'],
    [bytes(1.5 * 2 ** 30), '1.5 GiB'],
    [bytes(0), '0 B'],
    [cores(250), '250m'],
    [cores(32_000), '32'],
    [milliseconds(0.314), '0.31 ms'],
    [span(45), '45 s'],
    [span(3725), '1 h 2 min'],
    [span(200_000), '2 d 7 h'],
  ];
  for (const [got, wanted] of cases) assert.equal(got, wanted);
});

test('routes keep names with slashes', () => {
  const route = parse('#/decisions/a%2Fb?node=n-1');
  assert.deepEqual([route.view, route.item, route.query.get('node')], ['decisions', 'a/b', 'n-1']);
  assert.equal(parse('').view, 'cluster');
});
