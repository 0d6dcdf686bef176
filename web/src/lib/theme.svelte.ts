/** Light, dark, or as the system says; the choice is kept. */

export type Theme = 'system' | 'light' | 'dark';
const KEY = 'plimsoll-theme';
const media = globalThis.matchMedia?.('(prefers-color-scheme: dark)');

class Themes {
  choice = $state<Theme>((globalThis.localStorage?.getItem(KEY) as Theme | null) ?? 'system');
  #system = $state(media?.matches ?? false);
  dark = $derived(this.choice === 'system' ? this.#system : this.choice === 'dark');

  constructor() {
    media?.addEventListener('change', ({ matches }) => (this.#system = matches));
    this.#mark();
  }

  next(): void {
    this.choice = this.choice === 'system' ? (this.dark ? 'light' : 'dark') : this.choice === 'dark' ? 'light' : 'dark';
    localStorage.setItem(KEY, this.choice);
    this.#mark();
  }

  #mark(): void {
    if (this.choice === 'system') document.documentElement.removeAttribute('data-theme');
    else document.documentElement.dataset.theme = this.choice;
  }
}
export const theme = new Themes();

/** A colour of the theme as canvases take it; a custom property alone would read `light-dark(…)`. */
export function token(name: string): string {
  const probe = document.createElement('i');
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

export const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
