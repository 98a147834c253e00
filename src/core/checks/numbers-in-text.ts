import { dashes, plainText } from "../text/plain-text.ts";

/**
 * The numbers that a text states, in order: `8`, `-4`, `1,234.5`, `.5`, `1e3`, `$3`, `50%`, in the digits 0 to 9. What is part
 * of something else is no number: `v1.2.3`, `gpt-4`, `3rd`, `2024-01-15`, `10:30`, `3/4`, `10.0.0.1`, `5²`. Numbers with a unit
 * that touches them, such as `5ms`, count only where there are no others. Colours of terminals and what nobody sees are left out.
 */
export function numbersInText(text: string): number[] {
  const plain = plainText(text);
  const bare = parse(plain.matchAll(bareNumber));
  return bare.length > 0 ? bare : parse(plain.matchAll(numberWithUnit));
}

/** Decimal points and separators that are read in no number: an apostrophe, a middle dot, fullwidth and Arabic ones. */
const points = String.raw`:'\u2019\u00b7\uff0c\uff0e\u066b\u066c`;
/** What joins a number to what stands before or after it. */
const joint = String.raw`[${dashes}/.${points}]`;
/** Not after a letter or digit, nor after one and a joint; a colon, an apostrophe or a point joins digits only: `sum:8`. */
const free = String.raw`(?<![\w.\p{N}]|[\w\p{N}][${dashes}/]|\p{N}[${points}])`;
// No loop without bounds: over a text of megabytes it would exhaust the stack.
/** Thousands are set apart by commas, or by spaces that do not break. */
const separator = String.raw`[,\u00a0\u2009\u202f]`;
const grouped = String.raw`\d{1,3}(?:${separator}\d{3}){1,110}(?!\d)`;
const number = String.raw`([+${dashes}]?(?:(?:${grouped}|(?!${grouped})\d{1,400})(?:\.\d{1,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,4})?)`;
const bareNumber = new RegExp(`${free}${number}(?![\\w\\p{N}]|${joint}\\p{N})`, "gu");
const numberWithUnit = new RegExp(`${free}${number}(?=[A-Za-z]{1,5}(?![\\w\\p{N}]))`, "gu");

const separators = new RegExp(separator, "gu");
const sign = new RegExp(`^[${dashes}]`, "u");

function parse(matches: Iterable<RegExpExecArray>): number[] {
  return [...matches]
    .map(([, digits = ""]) => Number(digits.replaceAll(separators, "").replace(sign, "-")))
    .filter(Number.isFinite);
}
