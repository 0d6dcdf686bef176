/** What the first view costs to load, compressed: everything that the cluster view asks for, and nothing that it does not. */
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { chromium } from '@playwright/test';
import { start } from './server';

const LIMIT = 150 * 1024;

const fixture = await start({ nodes: 50, pods: 300 });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
});
const dist = new URL('../dist/', import.meta.url);
try {
  const page = await browser.newPage();
  const asked = new Set<string>();
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (pathname === '/' || /\.(js|css|svg|html)$/.test(pathname))
      asked.add(pathname === '/' ? 'index.html' : pathname.slice(1));
  });
  await page.goto(fixture.url);
  await page.locator('header .link.live').waitFor();
  await page.waitForTimeout(500);
  let total = 0;
  for (const name of asked) {
    const size = gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length;
    total += size;
    console.log(`${(size / 1024).toFixed(1).padStart(7)} KB  ${name}`);
  }
  console.log(`${(total / 1024).toFixed(1).padStart(7)} KB  the first view, compressed; at most ${LIMIT / 1024} KB`);
  if (total > LIMIT) process.exitCode = 1;
} finally {
  await browser.close();
  await fixture.close();
}
