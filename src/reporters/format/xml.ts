import { visibleXml } from "../../core/text/visible-text.ts";

/** Characters that XML 1.0 does not allow at all, not even escaped (section 2.2). */
const illegal =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\p{Surrogate}\ufffe\uffff]/gu;

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\t": "&#9;",
  "\n": "&#10;",
  "\r": "&#13;",
};

/** Text for the inside of an element; characters that XML cannot carry are left out. */
export function xmlText(text: string): string {
  const escaped = text
    .replaceAll(illegal, "")
    .replaceAll(/[&<>\r]/gu, (character) => escapes[character] ?? character);
  return visibleXml(escaped);
}

/** Attributes, with a space before each; those without a value are left out. */
export function xmlAttributes(attributes: Readonly<Record<string, string | number | undefined>>): string {
  return Object.entries(attributes)
    .flatMap(([name, value]) => (value === undefined ? [] : [` ${name}="${xmlAttribute(String(value))}"`]))
    .join("");
}

/** Line breaks and tabs are escaped, since a parser would turn them into spaces. */
function xmlAttribute(value: string): string {
  const escaped = value
    .replaceAll(illegal, "")
    .replaceAll(/[&<>"\t\n\r]/gu, (character) => escapes[character] ?? character);
  return visibleXml(escaped);
}
