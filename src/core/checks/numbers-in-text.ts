/**
 * The numbers that a text states, in order: `8`, `-4`, `1,234.5`, `.5`, `1e3`, `$3`, `50%`. What is part of something
 * else is no number: `v1.2.3`, `gpt-4`, `3rd`, `2024-01-15`, `10:30`, `3/4`, `10.0.0.1`. Numbers with a unit that touches
 * them, such as `5ms`, count only where there are no others.
 */
export function numbersInText(text: string): number[] {
  const bare = parse(text.matchAll(bareNumber));
  return bare.length > 0 ? bare : parse(text.matchAll(numberWithUnit));
}

/** What joins a number to what stands before or after it. */
const joint = String.raw`[-\u2212\u2013/:.'\u2019]`;
/** Not after a letter or digit, nor after one and a joint; a colon or an apostrophe joins digits only: `sum:8`. */
const free = String.raw`(?<![\w.]|\w[-\u2212\u2013/]|\d[:'\u2019])`;
// No loop without bounds: over a text of megabytes it would exhaust the stack.
const grouped = String.raw`\d{1,3}(?:,\d{3}){1,110}(?!\d)`;
const number = String.raw`([-+\u2212]?(?:(?:${grouped}|(?!${grouped})\d{1,400})(?:\.\d{1,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,4})?)`;
const bareNumber = new RegExp(`${free}${number}(?!\\w|${joint}\\d)`, "g");
const numberWithUnit = new RegExp(`${free}${number}(?=[A-Za-z]{1,5}(?!\\w))`, "g");

function parse(matches: Iterable<RegExpExecArray>): number[] {
  return [...matches]
    .map(([, digits = ""]) => Number(digits.replaceAll(",", "").replace("\u2212", "-")))
    .filter(Number.isFinite);
}
