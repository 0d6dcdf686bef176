import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// Relative paths let the binary serve the dashboard under any prefix. The polyfill would be of use to browsers that
// lack other things we need, and inlined assets would need `data:` in the Content-Security-Policy.
export default defineConfig({
  base: './',
  plugins: [svelte()],
  build: {
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox121', 'safari17.5'],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    sourcemap: false,
  },
  server: { proxy: { '^/(v1|status|health|config|cluster|training|model|openapi.json)': 'http://127.0.0.1:10280' } },
});
