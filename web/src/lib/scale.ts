/**
 * Colours of load. One hue whose lightness goes one way, so that it reads without colour vision and in print; only what
 * is at the line changes hue, on the blue-orange axis that all common kinds of colour blindness keep.
 */

type Rgb = [number, number, number];

const light: Rgb[] = ['#d3e2e8', '#a6c9d5', '#6ba6bd', '#33809f', '#155b7d', '#0c3954'].map(rgb);
const dark: Rgb[] = ['#20394a', '#235064', '#2a6a82', '#37869f', '#519fb6', '#86c9d6'].map(rgb);

const STEPS = 64;

export interface Ramp {
  colours: string[];
  over: string;
}

export const ramps: Record<'light' | 'dark', Ramp> = {
  light: { colours: steps(light), over: '#b93a14' },
  dark: { colours: steps(dark), over: '#ff9a66' },
};

/** The colour of a share between 0 and 1; what is above the line is not on the ramp. */
export function colour(ramp: Ramp, share: number, line = 1): string {
  if (share > line) return ramp.over;
  const at = Math.max(0, Math.min(STEPS - 1, Math.floor((share / line) * STEPS)));
  return ramp.colours[at] ?? ramp.over;
}

function rgb(hex: string): Rgb {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function steps(stops: Rgb[]): string[] {
  return Array.from({ length: STEPS }, (_, step) => {
    const at = (step / (STEPS - 1)) * (stops.length - 1);
    const from = stops[Math.floor(at)] as Rgb;
    const to = stops[Math.ceil(at)] as Rgb;
    const mix = from.map((value, channel) => Math.round(value + ((to[channel] ?? 0) - value) * (at % 1)));
    return `rgb(${mix.join(' ')})`;
  });
}

/** Relative luminance as WCAG has it. */
export function luminance(css: string): number {
  const channels = css.startsWith('#') ? rgb(css) : (css.match(/\d+/g) ?? []).slice(0, 3).map(Number);
  const [r = 0, g = 0, b = 0] = channels.map((value) => {
    const c = value / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a: string, b: string): number {
  const [dim = 0, bright = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (bright + 0.05) / (dim + 0.05);
}
