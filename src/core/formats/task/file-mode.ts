/**
 * Reads permission bits: a text of octal digits such as `0644`, or a number whose decimal digits are octal ones, since
 * YAML reads `0644` as the number 644. Undefined for anything else, and for a number that looks like bits written as
 * `0o644`: one whose digits would give others what the owner lacks.
 */
export function parseFileMode(value: unknown): number | undefined {
  if (typeof value === "string") return /^0?o?[0-7]{3}$/.test(value) ? bitsOf(value.slice(-3)) : undefined;
  if (typeof value !== "number" || !/^[0-7]{3}$/.test(String(value))) return undefined;
  const bits = bitsOf(String(value));
  return isSensible(bits) && value !== fullAccess ? bits : undefined;
}

/** The bits 777, as a number: written in digits it looks like the bits 511. */
const fullAccess = 0o777;

function bitsOf(digits: string): number {
  return Number.parseInt(digits, 8);
}

function isSensible(bits: number): boolean {
  const owner = bits >> 6;
  const others = ((bits >> 3) | bits) & 7;
  return (owner & 4) !== 0 && (others & ~owner) === 0;
}
