/**
 * A number of a database as JSON: a number where that is exactly the same value, else its digits as a text. Not-a-number and
 * infinity, which JSON does not have, are texts too.
 */
export function exactNumber(text: string): number | string {
  const value = Number(text);
  if (!Number.isFinite(value)) return text;
  return sameDecimal(text, String(value)) ? value : text;
}

/** Whether two texts are the same decimal number, to the last digit. */
function sameDecimal(left: string, right: string): boolean {
  const [a, b] = [decimalOf(left), decimalOf(right)];
  return a !== undefined && b !== undefined && a.digits === b.digits && a.exponent === b.exponent;
}

/** Digits without zeros at either end, with a sign, and the power of ten of the last. */
function decimalOf(text: string): { readonly digits: string; readonly exponent: number } | undefined {
  const parts = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(text.trim());
  if (parts === null) return undefined;
  const [, sign = "", whole = "", fraction = "", power = "0"] = parts;
  const digits = withoutLeadingZeros(whole + fraction);
  const kept = withoutTrailingZeros(digits);
  if (kept === "") return { digits: "0", exponent: 0 };
  const exponent = Number(power) - fraction.length + (digits.length - kept.length);
  return { digits: sign === "-" ? `-${kept}` : kept, exponent };
}

function withoutLeadingZeros(digits: string): string {
  let start = 0;
  while (digits[start] === "0") start += 1;
  return digits.slice(start);
}

function withoutTrailingZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === "0") end -= 1;
  return digits.slice(0, end);
}
