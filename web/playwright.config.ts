import { defineConfig } from '@playwright/test';

/** `any` runs on every server that serves the dashboard (PLIMSOLL_URL, PLIMSOLL_TOKEN); `fixture` needs the fixture's data. */
const given = process.env.PLIMSOLL_URL;
const port = 10281;

export default defineConfig({
  testDir: 'tests',
  outputDir: 'test-results/run',
  timeout: 30_000,
  expect: { timeout: 8_000 },
  workers: 1,
  fullyParallel: false,
  reporter: [['list']],
  use: {
    baseURL: given ?? `http://127.0.0.1:${port}/`,
    viewport: { width: 1440, height: 900 },
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-dev-shm-usage'],
    },
    trace: 'off',
  },
  projects: [{ name: 'any', testDir: 'tests/any' }, ...(given ? [] : [{ name: 'fixture', testDir: 'tests/fixture' }])],
  ...(given
    ? {}
    : {
        webServer: {
          command: `npx tsx tests/serve.ts port=${port} nodes=600 pods=6000 rate=10`,
          url: `http://127.0.0.1:${port}/health`,
        },
      }),
});
