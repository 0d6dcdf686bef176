/** Figures as people read them. What is not known is a dash, never a zero. */

export const DASH = '–';
const MINUS = '−';

export function number(value: number | null | undefined, digits = 0): string {
  if (value == null || !Number.isFinite(value)) return DASH;
  return value
    .toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
    .replace(/^-/, MINUS);
}

export const percent = (share: number | null | undefined, digits = 0) =>
  share == null || !Number.isFinite(share) ? DASH : `${number(share * 100, digits)} %`;

/** A change with its sign: −12.3 %. */
export function change(percents: number | null | undefined, digits = 1): string {
  if (percents == null || !Number.isFinite(percents)) return DASH;
  const text = number(percents, digits);
  return `${percents > 0 ? '+' : ''}${text} %`;
}

export function watts(value: number | null | undefined): string {
  if (value == null) return DASH;
  if (Math.abs(value) >= 1e6) return `${number(value / 1e6, 2)} MW`;
  return Math.abs(value) >= 1000 ? `${number(value / 1000, value >= 1e5 ? 0 : 1)} kW` : `${number(value)} W`;
}

export const kwh = (value: number | null | undefined, digits = 2) =>
  value == null ? DASH : value >= 1000 ? `${number(value / 1000, digits)} MWh` : `${number(value, digits)} kWh`;

/** Binary units, as Kubernetes counts memory. */
export function bytes(value: number | null | undefined): string {
  if (value == null) return DASH;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let at = 0;
  let rest = value;
  while (rest >= 1024 && at < units.length - 1) {
    rest /= 1024;
    at++;
  }
  return `${number(rest, rest < 10 && at > 0 && rest % 1 ? 1 : 0)} ${units[at]}`;
}

export const cores = (millis: number | null | undefined) =>
  millis == null
    ? DASH
    : millis < 1000 && millis > 0
      ? `${number(millis)}m`
      : number(millis / 1000, millis % 1000 && millis < 1e5 ? 1 : 0);

export function milliseconds(value: number | null | undefined): string {
  if (value == null) return DASH;
  return value < 10 ? `${number(value, 2)} ms` : value < 1000 ? `${number(value)} ms` : `${number(value / 1000, 1)} s`;
}

/** The two largest units of a span: 3 h 12 min. */
export function span(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return DASH;
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s < 600 && s % 60 ? ` ${s % 60} s` : ''}`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export const since = (at: string | null | undefined, now = Date.now()) =>
  at ? span((now - Date.parse(at)) / 1000) : DASH;

const clockFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
export const clock = (at: string | number) => clockFormat.format(typeof at === 'number' ? at * 1000 : Date.parse(at));

/** Seconds since midnight as 08:25. */
export function ofDay(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  const two = (value: number) => `${value}`.padStart(2, '0');
  return `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

const dateFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
export function date(at: string | null | undefined): string {
  const time = at ? Date.parse(at) : NaN;
  return Number.isNaN(time) ? DASH : dateFormat.format(time);
}

export const plural = (count: number, one: string, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
