/** The real program, at work on its demo: what people see who type `make demo`. */
import { spawn, type ChildProcess } from 'node:child_process';
import { expect, open, shot, test, violations } from '../page';

let program: ChildProcess;
let url: string;

test.beforeAll(async () => {
  const binary = process.env.PLIMSOLL_PROGRAM ?? '';
  program = spawn(binary, ['demo', '--listen', '127.0.0.1:0', '--speed', '240'], {
    cwd: '..',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  url = await new Promise((resolve, reject) => {
    let said = '';
    program.stdout?.on('data', (part) => {
      said += part;
      const found = said.match(/Dashboard: (http:\S+)/)?.[1];
      if (found) resolve(`${found.replace(/\/$/, '')}/`);
    });
    program.on('error', reject);
    program.on('exit', (code) => reject(new Error(`it ended with ${code} and said: ${said}`)));
  });
});
test.afterAll(() => {
  program.kill('SIGKILL');
});

const amount = (text: string | null) => Number((text ?? '').replace(/[^\d.]/g, ''));

for (const scheme of ['light', 'dark'] as const) {
  test(`it opens on the demo, and what is saved counts up (${scheme})`, async ({ page }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await page.goto(url);
    await expect(page).toHaveURL(/#\/demo$/);
    const saved = page.getByRole('region', { name: 'Saved so far' }).locator('.big');
    const before = amount(await saved.textContent());
    await expect.poll(async () => amount(await saved.textContent())).toBeGreaterThan(before);
    for (const side of ['default', 'models/energy'])
      await expect(page.getByRole('region', { name: side, exact: true })).toContainText('Machines awake');
    await shot(page, `program-demo-${scheme}`);
    expect(await violations(page)).toEqual([]);
  });
}

test('a page that is opened later shows the day so far', async ({ page }) => {
  await page.goto(`${url}#/demo`);
  const history = async () => (await (await page.request.get(`${url}v1/demo`)).json()).history.length;
  await expect.poll(history).toBeGreaterThan(1);
  await page.reload();
  await expect(page.getByRole('region', { name: 'Machines awake over the day' })).toBeVisible();
});

test('the day is paused by keyboard, stays so after a reload, and goes on', async ({ page }) => {
  await page.goto(`${url}#/demo`);
  const pause = page.getByRole('button', { name: 'Pause' });
  await pause.focus();
  await page.keyboard.press('Enter');
  const on = page.getByRole('button', { name: 'Go on' });
  await expect(on).toBeVisible();
  const clock = page.getByLabel('Time of the simulated day');
  await page.reload();
  await expect(on).toBeVisible();
  const held = await clock.textContent();
  const { clock: at } = await (await page.request.get(`${url}v1/demo`)).json();
  await page.request.get(`${url}v1/demo`);
  expect((await (await page.request.get(`${url}v1/demo`)).json()).clock).toBe(at);
  await on.click();
  await page.getByRole('button', { name: '480×' }).click();
  await expect(page.getByRole('button', { name: '480×' })).toHaveAttribute('aria-pressed', 'true');
  await expect.poll(() => clock.textContent()).not.toBe(held);
});

test('a speed that is none is refused', async ({ request }) => {
  for (const body of [{ speed: 0 }, { speed: -5 }, { speed: 1e9 }, { speed: 'fast' }, { sped: 5 }]) {
    const answer = await request.post(`${url}v1/demo`, { data: body });
    expect(answer.status(), JSON.stringify(body)).toBe(422);
    expect(answer.headers()['content-type']).toBe('application/problem+json');
  }
});

test('the map has all nodes, and is walked by keyboard', async ({ page }) => {
  await open(page, 'cluster', url);
  const map = page.getByRole('application', { name: /Cluster map/ });
  await map.focus();
  const spoken = page.locator('.frame [aria-live]');
  await expect(spoken).toContainText('of CPU and');
  const first = await spoken.textContent();
  await page.keyboard.press('ArrowRight');
  await expect(spoken).not.toHaveText(first ?? '');
  const { totals } = await (await page.request.get(`${url}cluster/state`)).json();
  expect(totals.nodes).toBe(200);
  await shot(page, 'program-cluster');
  expect(await violations(page)).toEqual([]);
});

test('a decision opens with its scores', async ({ page }) => {
  await open(page, 'decisions', url);
  const first = page.locator('tbody tr a').first();
  await first.waitFor();
  await page.getByRole('button', { name: 'Hold still' }).click();
  await first.click();
  await expect(page.getByRole('heading', { name: /Why (this|no) node/ })).toBeVisible();
  await expect(page.getByText(/nodes feasible/)).toBeVisible();
  await shot(page, 'program-decision');
});

test('policies are listed, and keys go from view to view', async ({ page }) => {
  await open(page, 'demo', url);
  await page.keyboard.press('g');
  await page.keyboard.press('l');
  await expect(page).toHaveURL(/#\/policies$/);
  await expect(page.getByText('models/energy').first()).toBeVisible();
  await expect(page.getByText('efficient-first').first()).toBeVisible();
  await shot(page, 'program-policies');
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true });
  test('the demo fits the width', async ({ page }) => {
    await page.goto(`${url}#/demo`);
    await expect(page.getByText('saved so far')).toBeVisible();
    await shot(page, 'program-demo-phone');
    expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBeLessThanOrEqual(0);
  });
});
