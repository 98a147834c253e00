/**
 * Escape sequences of terminals (ECMA-48: CSI, and what is set off as a string such as OSC, which the next escape ends), and
 * characters that nobody sees: control characters but for white space, and what is ignorable by default.
 */
const unseen =
  // oxlint-disable-next-line no-control-regex
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b[PX\]^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-Z\\-~]?|(?![\t-\r])[\p{Cc}\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]/gu;

/** Text as a reader sees it: without colours and other sequences of terminals, and without characters that show nothing. */
export function plainText(text: string): string {
  return text.replaceAll(unseen, "");
}

/** Hyphens, the figure dash, the en dash and minus signs, for a class of characters; in front of a digit all of them are a minus. */
export const dashes = String.raw`\-\u2010-\u2013\u2212\ufe63\uff0d`;
