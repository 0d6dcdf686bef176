import { defineConfig } from '@playwright/test';

/**
 * `any` runs on every server that serves the dashboard (PLIMSOLL_URL, PLIMSOLL_TOKEN); `fixture` needs the fixture's data; `program` starts the
 * real program (PLIMSOLL_PROGRAM) and nothing else.
 */
const program = process.env.PLIMSOLL_PROGRAM;
const given = process.env.PLIMSOLL_URL ?? program;
const port = 10281;

export default defineConfig({
  testDir: 'tests',
  outputDir: 'test-results/run',
  timeout: 30_000,
  expect: { timeout: 8_000 },
  workers: 1,
  // A busy machine may be slower than a test has patience for.
  retries: 2,
  fullyParallel: false,
  reporter: [['list']],
  use: {
    baseURL: process.env.PLIMSOLL_URL ?? `http://127.0.0.1:${port}/`,
    viewport: { width: 1440, height: 900 },
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-dev-shm-usage'],
    },
    trace: 'off',
  },
  projects: program
    ? [{ name: 'program', testDir: 'tests/program' }]
    : [{ name: 'any', testDir: 'tests/any' }, ...(given ? [] : [{ name: 'fixture', testDir: 'tests/fixture' }])],
  ...(given
    ? {}
    : {
        webServer: {
          command: `npx tsx tests/serve.ts port=${port} nodes=600 pods=6000 rate=10`,
          url: `http://127.0.0.1:${port}/health`,
        },
      }),
});
