import { expect, open, shot, test, views, violations } from '../page';

for (const scheme of ['light', 'dark'] as const) {
  test.describe(scheme, () => {
    test.use({ colorScheme: scheme });
    for (const view of views) {
      test(`${view} shows itself, without a violation of WCAG AA`, async ({ page }) => {
        await open(page, view);
        await expect(page.getByText('could not be read')).toHaveCount(0);
        await shot(page, `${view}-${scheme}`);
        expect(await violations(page)).toEqual([]);
      });
    }
  });
}

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true });
  for (const view of views) {
    test(`${view} fits the width`, async ({ page }) => {
      await open(page, view);
      await shot(page, `${view}-phone`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      expect(wide, 'pixels that the page is wider than the phone').toBeLessThanOrEqual(0);
      expect(await violations(page)).toEqual([]);
    });
  }
});

test('nothing is asked of another host', async ({ page, baseURL }) => {
  const hosts = new Set<string>();
  page.on('request', (request) => hosts.add(new URL(request.url()).host));
  for (const view of views) await open(page, view);
  expect([...hosts]).toEqual([new URL(baseURL ?? '').host]);
});

test('g and a letter go from view to view, ? lists the keys', async ({ page }) => {
  await open(page, 'cluster');
  await page.keyboard.press('g');
  await page.keyboard.press('p');
  await expect(page).toHaveURL(/#\/pending$/);
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keys' });
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
});

test('the colours can be switched, and stay so', async ({ page }) => {
  await page.emulateMedia({ colorScheme: 'light' });
  await open(page, 'system');
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  await page.getByRole('button', { name: 'Switch to dark colours' }).click();
  const dark = await ground();
  expect(dark).not.toBe(light);
  await page.reload();
  expect(await ground()).toBe(dark);
});

test('an address that is none says so', async ({ page }) => {
  await page.goto('./#/nowhere');
  await expect(page.getByText('There is no view “nowhere”')).toBeVisible();
});
