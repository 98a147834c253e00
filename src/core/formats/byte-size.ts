const units: Readonly<Record<string, number>> = { "": 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

/**
 * Reads an amount of memory: a number of bytes, or a text such as `512MB`, `1.5GiB`, `64k`; a kilobyte is 1024 bytes. Gives
 * whole bytes, or undefined for what is none: nonsense, zero, negative, more than can be counted.
 */
export function parseByteSize(value: unknown): number | undefined {
  const bytes = typeof value === "string" ? parseText(value) : value;
  if (typeof bytes !== "number") return undefined;
  const whole = Math.floor(bytes);
  return whole > 0 && Number.isSafeInteger(whole) ? whole : undefined;
}

function parseText(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?\s*$/i.exec(text);
  if (match === null) return undefined;
  const [, number, unit = ""] = match;
  return Number(number) * (units[unit.toLowerCase()] ?? Number.NaN);
}
