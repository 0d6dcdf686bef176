/**
 * Frames a second of the map with 5,000 nodes, 50,000 pods and 100 decisions a second, in headless Chromium beside the
 * fixture on the same machine. `npm run bench -- seconds=20 nodes=5000 pods=50000 rate=100 zoom=0 scroll=0`; `scroll` is pixels a frame; with `decisions=1` it is their table.
 */
import { fork } from 'node:child_process';
import { cpus } from 'node:os';
import { chromium } from '@playwright/test';

const set: Record<string, number> = {
  seconds: 20,
  nodes: 5000,
  pods: 50_000,
  rate: 100,
  zoom: 0,
  scroll: 0,
  least: 30,
};
for (const argument of process.argv.slice(2)) {
  const [name = '', value = ''] = argument.split('=');
  set[name] = Number(value);
}

const given = process.env.PLIMSOLL_URL;
// A process of its own, as the binary is one: the fixture's work must not count as the browser's.
const server = given
  ? null
  : fork(
      new URL('serve.ts', import.meta.url),
      ['port=10282', `nodes=${set.nodes}`, `pods=${set.pods}`, `rate=${set.rate}`],
      { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] },
    );
const url =
  given ?? (await new Promise<string>((resolve) => server?.stdout?.once('data', (text) => resolve(`${text}`.trim()))));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
});
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const token = process.env.PLIMSOLL_TOKEN;
  if (token) await page.addInitScript((value) => sessionStorage.setItem('plimsoll-token', value), token);
  // tsx wraps functions in a helper that the page does not have.
  await page.addInitScript('globalThis.__name = (f) => f');
  const begin = Date.now();
  await page.goto(`${url}#/cluster`);
  await page.locator('header .link.live').waitFor();
  await page.waitForFunction(() => /\d/.test(document.querySelector('.totals .value')?.textContent ?? ''));
  const ready = Date.now() - begin;
  if (set.decisions) await page.goto(`${url}#/decisions`);
  for (let at = 0; at < (set.zoom ?? 0); at++) await page.getByRole('button', { name: 'Larger' }).click();
  await page.waitForTimeout(3000);

  const { frames, long, decisions } = await page.evaluate(
    async ({ seconds, scroll }) => {
      const frames: number[] = [];
      const long: number[] = [];
      const observer = new PerformanceObserver((list) =>
        list.getEntries().forEach((entry) => long.push(entry.duration)),
      );
      observer.observe({ type: 'longtask' });
      const first = () =>
        Number(document.querySelector('.side li a, tbody tr a')?.getAttribute('href')?.split('/').pop());
      const from = first();
      const scroller = document.querySelector('.scroller');
      let down = scroll;
      let last = performance.now();
      const end = last + seconds * 1000;
      await new Promise<void>((resolve) => {
        const frame = (now: number) => {
          frames.push(now - last);
          last = now;
          if (scroller) scroller.scrollTop += down;
          if (
            scroller &&
            (scroller.scrollTop <= 0 || scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight)
          )
            down = -down;
          if (now < end) requestAnimationFrame(frame);
          else resolve();
        };
        requestAnimationFrame(frame);
      });
      observer.disconnect();
      return { frames: frames.slice(1), long, decisions: first() - from };
    },
    { seconds: set.seconds ?? 20, scroll: set.scroll ?? 0 },
  );

  await page.screenshot({ path: 'test-results/screenshots/bench.png' });
  frames.sort((a, b) => a - b);
  const total = frames.reduce((sum, frame) => sum + frame, 0);
  const fps = (frames.length / total) * 1000;
  const at = (share: number) => (frames[Math.floor(frames.length * share)] ?? 0).toFixed(1);
  console.log(
    `${set.nodes} nodes, ${set.pods} pods, ${(decisions / (set.seconds ?? 1)).toFixed(0)} decisions a second seen, ${cpus().length} cores, no GPU`,
  );
  console.log(`shown after ${ready} ms; ${fps.toFixed(1)} frames a second over ${(total / 1000).toFixed(1)} s`);
  console.log(
    `a frame takes ${at(0.5)} ms (half), ${at(0.95)} ms (95 %), ${at(0.99)} ms (99 %), ${at(0.9999)} ms (longest)`,
  );
  console.log(
    `${frames.filter((frame) => frame > 33.4).length} of ${frames.length} frames over 33 ms, ${frames.filter((frame) => frame > 100).length} over 100 ms; ${long.length} long tasks (over 50 ms)`,
  );
  if (fps < (set.least ?? 30)) {
    console.error(`below ${set.least} frames a second`);
    process.exitCode = 1;
  }
} finally {
  await browser.close();
  server?.kill();
}
