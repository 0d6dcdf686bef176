/** What all tests of pages share: a page that fails on what a browser complains about, screenshots, and axe. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, test as base, type Page } from '@playwright/test';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Of the browser's own words about failed requests, which tests cause on purpose. */
const REQUESTS = /Failed to load resource|net::ERR/;

export const test = base.extend<{ complaints: string[] }>({
  complaints: [
    async ({ page }, use) => {
      const complaints: string[] = [];
      page.on('console', (message) => {
        if (message.type() === 'error' && !REQUESTS.test(message.text())) complaints.push(message.text());
      });
      page.on('pageerror', (error) => complaints.push(`${error}`));
      const token = process.env.PLIMSOLL_TOKEN;
      if (token) await page.addInitScript((value) => sessionStorage.setItem('plimsoll-token', value), token);
      await use(complaints);
      expect(complaints, 'errors in the console, such as of the Content-Security-Policy').toEqual([]);
    },
    { auto: true },
  ],
});
export { expect };

export const views = [
  'cluster',
  'decisions',
  'pending',
  'measures',
  'policies',
  'training',
  'rewards',
  'experiments',
  'system',
] as const;

/** Opens a view and waits until it is there and connected. */
export async function open(page: Page, view: string, base = './'): Promise<void> {
  await page.goto(`${base}#/${view}`);
  await expect(page.locator('main h1').first()).toBeAttached();
  await expect(page.locator('header .link')).toContainText('live');
}

export async function shot(page: Page, name: string): Promise<void> {
  await page.waitForTimeout(400);
  await page.screenshot({ path: `test-results/screenshots/${name}.png` });
}

/** Violations of WCAG 2 A and AA as axe finds them. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
    const found = await (window as any).axe.run(document, { runOnly: { type: 'tag', values: tags } });
    return found.violations.map(
      (one: any) =>
        `${one.id}: ${one.nodes
          .map((node: any) => `${node.target} ${node.failureSummary}`)
          .join(' | ')
          .slice(0, 600)}`,
    );
  });
}
