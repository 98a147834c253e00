/** A duration in the unit that reads best: `41 ms`, `2.0 s`, `3 min 12 s`, `1 h 2 min`. */
export function formatDuration(milliseconds: number): string {
  const ms = Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : 0;
  if (ms > 0 && ms < 1) return "<1 ms";
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A duration that is still growing, so that it does not change its unit while one looks: `0.4 s`. */
export function formatElapsed(milliseconds: number): string {
  return milliseconds < 1000
    ? `${(Math.floor(Math.max(0, milliseconds) / 100) / 10).toFixed(1)} s`
    : formatDuration(milliseconds);
}

/** A whole number with its thousands parted: `12,345`. */
export function formatInteger(value: number): string {
  return String(Math.round(value)).replaceAll(/\B(?=(\d{3})+$)/gu, ",");
}

/** A number with its noun: `1 trial`, `2 trials`. */
export function countOf(count: number, noun: string): string {
  return `${formatInteger(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A score with two digits; never rounded up to `1.00`, which is a perfect one. */
export function formatScore(score: number): string {
  const shown = Math.round(score * 100) / 100;
  return (score < 1 ? Math.min(shown, 0.99) : shown).toFixed(2);
}
