/** The fixture as a server of its own: `npm run fixture -- nodes=500 pods=5000 rate=20 mode=demo port=10280`. */
import { start, type Options } from './server';

const given: Record<string, string | number> = { port: 10280 };
for (const argument of process.argv.slice(2)) {
  const [name = '', value = ''] = argument.split('=');
  given[name] = /^\d+$/.test(value) ? Number(value) : value;
}
const fixture = await start(given as Partial<Options>);
console.log(fixture.url);
