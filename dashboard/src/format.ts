import type { RunRow } from "../../src/report/documents/documents.ts";

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const percentage = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
const preciseNumber = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
const precisePercentage = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 6 });
/** Sweden writes dates as ISO 8601 does. */
const dates = {
  minutes: new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "short" }),
  seconds: new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" }),
} as const;

export function formatNumber(value: number): string {
  return number.format(value);
}

/** Such as `12.3K`. */
export function formatCompact(value: number): string {
  return compact.format(value);
}

export function formatPercent(share: number): string {
  return percentage.format(share);
}

/** A rate as a whole percentage: only all is 100 %, and only nothing 0 %. */
export function formatRate(share: number): string {
  const rounded = Math.round(share * 100);
  if (share < 1 && rounded === 100) return ">99%";
  return share > 0 && rounded === 0 ? "<1%" : `${rounded}%`;
}

/** The interval of a rate, such as `31–83%`. */
export function formatRange({ low, high }: { readonly low: number; readonly high: number }): string {
  return `${formatRate(low).replace("%", "")}–${formatRate(high)}`;
}

/** A threshold, or a value that is rounded for comparison with one. */
export function formatPrecise(value: number, style: "number" | "percent"): string {
  return (style === "percent" ? precisePercentage : preciseNumber).format(value);
}

/** What was run. A check without a file has the folder itself. */
export function formatSource(source: string): string {
  return source === "." ? "this folder" : source;
}

/** The variants of a run, for a list of runs: attacks have no names there, since there are many. */
export function variantNames({
  variants = [],
  isAttacked,
}: Pick<RunRow, "variants" | "isAttacked">): readonly string[] {
  return isAttacked === true ? ["attacks"] : variants;
}

/** What a run was asked for; runs with equal ones can be compared as a whole. */
export function selectionOf({
  source,
  agents,
  variants,
  filter,
}: Pick<RunRow, "source" | "agents" | "variants" | "filter">): string {
  return JSON.stringify([source, agents.map(({ name }) => name), variants, filter]);
}

/** Local date and time, to the minute, or `seconds`. */
export function formatDate(iso: string, precision: "minutes" | "seconds" = "minutes"): string {
  const time = Date.parse(iso);
  return Number.isNaN(time) ? "unknown" : dates[precision].format(time);
}

/** Such as `12.3 ms`, `4.2 s`, `3 min 05 s`, `2 h 04 min`. */
export function formatDuration(ms: number): string {
  if (ms < 0) return `−${formatDuration(-ms)}`;
  if (ms < 1000) return `${ms < 10 ? number.format(ms) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${twoDigits(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${twoDigits(minutes % 60)} min`;
}

/** Such as `1 call`, `2 calls`. */
export function counted(count: number, singular: string, plural = `${singular}s`): string {
  return `${number.format(count)} ${count === 1 ? singular : plural}`;
}

/** Indented JSON in one line. It may be cut off. */
export function compactJson(text: string): string {
  return text.replaceAll(/\n\s*/g, " ");
}

function twoDigits(value: number): string {
  return String(Math.floor(value)).padStart(2, "0");
}
