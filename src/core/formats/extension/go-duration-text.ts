const nanosecondsInMs = 1_000_000;

/** Writes milliseconds as a Go duration: `90s`, `1500ms`; what is finer in `ns`. What is not above zero is `0s`. */
export function goDurationText(ms: number): string {
  if (!(ms > 0)) return "0s";
  if (!Number.isInteger(ms)) return `${Math.max(1, Math.round(ms * nanosecondsInMs))}ns`;
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}
