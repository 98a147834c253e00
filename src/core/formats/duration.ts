import ms from "ms";

/** The longest time that a timer can wait, about 24.8 days. */
export const maxDurationMs = 2_147_483_647;

/**
 * Reads a duration: a number of milliseconds, or a text such as `500ms`, `2s`, `5m`, `1h`. Gives milliseconds, or
 * undefined for what is no duration: nonsense, zero, negative, longer than a timer can wait.
 */
export function parseDuration(value: unknown): number | undefined {
  const milliseconds = typeof value === "string" ? parseText(value) : value;
  if (typeof milliseconds !== "number") return undefined;
  return milliseconds > 0 && milliseconds <= maxDurationMs ? milliseconds : undefined;
}

function parseText(text: string): number | undefined {
  const trimmed = text.trim();
  if (trimmed === "" || trimmed.length > 100) return undefined;
  // Its type admits only texts that are known to be durations; for others it gives undefined.
  const parse: (text: ms.StringValue) => number | undefined = ms;
  return parse(trimmed as ms.StringValue);
}
