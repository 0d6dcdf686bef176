/** What works on every server that has a node and has made a decision; skipped where there is none. */
import { expect, open, test } from '../page';

test('the map is walked by keyboard, and a node opened and closed', async ({ page }) => {
  await open(page, 'cluster');
  await expect(page.getByText('Reading the cluster…')).toHaveCount(0);
  test.skip(await page.getByText('The cluster has no nodes').isVisible(), 'no node');
  const map = page.getByRole('application', { name: /Cluster map/ });
  await map.focus();
  const spoken = page.locator('.frame [aria-live]');
  await expect(spoken).toContainText('of CPU and');
  await page.keyboard.press('End');
  const name = ((await spoken.textContent()) ?? '').split(/[,:]/)[0] ?? '';
  await page.keyboard.press('Enter');
  const panel = page.getByRole('complementary', { name: 'The node' });
  await expect(panel.getByRole('heading', { name })).toBeFocused();
  await expect(panel.getByText('could not be read')).toHaveCount(0);
  await page.keyboard.press('Escape');
  await expect(map).toBeFocused();
});

test('the table has as many nodes as the totals say', async ({ page }) => {
  await open(page, 'cluster');
  await expect(page.getByText('Reading the cluster…')).toHaveCount(0);
  test.skip(await page.getByText('The cluster has no nodes').isVisible(), 'no node');
  const said = ((await page.locator('.totals .note').first().textContent()) ?? '').replace(/\D/g, '');
  await page.getByRole('button', { name: 'Table' }).click();
  await expect(page.locator('.map .tools .num').first()).toContainText(Number(said).toLocaleString('en'));
});

test('a decision gives its reasons', async ({ page }) => {
  await open(page, 'decisions');
  const first = page.locator('tbody tr a').first();
  const some = await first.waitFor({ timeout: 5000 }).then(
    () => true,
    () => false,
  );
  test.skip(!some, 'no decision yet');
  await page.getByRole('button', { name: 'Hold still' }).click();
  await first.click();
  await expect(page.getByRole('heading', { name: /Why (this|no) node/ })).toBeVisible();
  await expect(page.getByText(/nodes feasible/)).toBeVisible();
});

test('a question comes before a policy changes, and no leaves all as it is', async ({ page }) => {
  await open(page, 'policies');
  const activate = page.getByRole('button', { name: 'Activate', exact: true }).first();
  const may = await activate.waitFor({ timeout: 5000 }).then(
    () => activate.getAttribute('aria-disabled'),
    () => 'true',
  );
  test.skip(may === 'true', 'nothing may be activated here');
  const before = await page.locator('header .what').textContent();
  await activate.click();
  await expect(page.getByRole('dialog')).toContainText('From the next pod on');
  await page.getByRole('button', { name: 'Leave as it is' }).click();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  expect(await page.locator('header .what').textContent()).toBe(before);
});
