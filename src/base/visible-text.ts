/**
 * Makes text from servers and models safe to print on one line: control and escape characters, line breaks, direction
 * marks, characters that show nothing and broken surrogates are written out, such as `\x1b` or `\u202e`, and so is what
 * makes a CI system obey. The joiners that emoji and some scripts are made with stay.
 */
export function visibleText(text: string): string {
  return text.replaceAll(unsafe, writtenOut).replaceAll(command, writtenOut);
}

/** The same with a question mark for whatever would be written out, so that every column stays where it is. */
export function visibleColumns(text: string): string {
  return text.replaceAll(unsafe, questionMarks).replaceAll(command, questionMarks);
}

/** The same for text of several lines: line breaks part lines, and tabs become spaces. */
export function visibleLines(text: string): string[] {
  return text.split(/\r\n|\n/u).map((line) => visibleText(line.replaceAll("\t", "  ")));
}

/** The same for a page in a browser: line breaks and tabs stay, and what makes a CI system obey is text like any other. */
export function visibleOnPage(text: string): string {
  return text.replaceAll(unsafeOnPage, writtenOut);
}

/**
 * Foreign lines under a line of mcpvals. The bar distinguishes them, so that no line that a server wrote can be taken for
 * a verdict.
 */
export function quotedLines(text: string): string[] {
  return visibleLines(text).map((line) => `${quoteBar}${line}`.trimEnd());
}

export const quoteBar = "│ ";

/** Printable lines, in colours or not, of which no CI system obeys one, wherever they were broken. */
export function withoutCommands(lines: string): string {
  return lines.replaceAll(command, writtenOut);
}

/** JSON with the same value, in which all that {@link visibleText} writes out is escaped. */
export function visibleJson(json: string): string {
  return json.replaceAll(hidden, escapeUnits).replaceAll(command, escapeUnits);
}

/** XML text with the same value, in which all of that is a reference. */
export function visibleXml(xml: string): string {
  return xml.replaceAll(hidden, reference).replaceAll(command, reference);
}

/**
 * DEL and C1; soft hyphen; Arabic letter mark; Mongolian vowel separator; zero-width space, direction marks; line and
 * paragraph separators, embeddings; word joiner to isolates; BOM; annotations; tags and what else hides behind them; lone
 * surrogates.
 */
const hidden =
  /[\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}\p{Surrogate}]/gu;
/** The same and C0. */
const unsafe = new RegExp(String.raw`[\u0000-\u001f]|${hidden.source}`, "gu");
const unsafeOnPage = new RegExp(String.raw`(?!\t|\r?\n)[\u0000-\u001f]|${hidden.source}`, "gu");

/**
 * The character to be written out in what CI systems obey: `::error::` at the beginning of a line, behind white space and
 * colours, too (GitHub), and anywhere `##[group]` (GitHub, Azure), `##vso[…]` (Azure) and `##teamcity[…]`.
 */
const command =
  // oxlint-disable-next-line no-control-regex
  /#(?=[\w.]*\[)(?<=##)|:(?=:)(?<=^(?:\u001b\[[\d;]*m|\s)*:)/gmu;

const named: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function writtenOut(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (code <= 0xff) return named[character] ?? `\\x${hex.padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}

function escapeUnits(character: string): string {
  return Array.from(
    { length: character.length },
    (_, unit) => `\\u${character.charCodeAt(unit).toString(16).padStart(4, "0")}`,
  ).join("");
}

function reference(character: string): string {
  return `&#${character.codePointAt(0) ?? 0};`;
}

function questionMarks(character: string): string {
  return "?".repeat(character.length);
}

/**
 * Escape sequences of terminals (ECMA-48: CSI, and what is set off as a string such as OSC, which the next escape ends), and
 * invisible characters: control characters but for white space, and what is ignorable by default.
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

/**
 * A text of at most so many characters, or so many of it and `…`. The mark shows that something is missing, and what
 * removes secrets that one may have been cut in two.
 */
export function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most).toWellFormed()}…`;
}

const maxShownErrorLine = 300;

/** How much of a text to show. */
export interface ClipLimits {
  readonly lines: number;
  readonly characters: number;
  /** Which end matters more; the head unless given. */
  readonly keep?: "head" | "tail";
}

/**
 * Text of others as printable lines, shortened; what was left out is said in its place. A tail is led by the line
 * that looks like the error itself, when that would be left out.
 */
export function clipLines(text: string, { lines: most, characters, keep = "head" }: ClipLimits): string[] {
  const trimmed = text.replace(/[\r\n]+$/u, "");
  const cut = Math.max(0, trimmed.length - characters);
  if (keep === "head") {
    const lines = visibleLines(trimmed.slice(0, characters));
    return [...lines.slice(0, most), ...noteOf(lines.length - most, cut, "more")];
  }
  const lines = visibleLines(trimmed.slice(cut));
  const extra = Math.max(0, lines.length - most);
  const tail = lines.slice(extra);
  const error = errorLine(trimmed.slice(0, cut) + lines.slice(0, extra).join("\n"));
  if (error !== undefined) return [error, "…", ...tail.slice(Math.max(0, tail.length - most + 1))];
  return [...noteOf(extra, cut, "before"), ...tail];
}

/** Text of others on one line, shortened to about `characters`. */
export function clipText(text: string, characters: number): string {
  if (text.length <= characters) return visibleText(text);
  return `${visibleText(text.slice(0, characters))}… (${countOf(text.length - characters, "more character")})`;
}

/** A printable text as Markdown shows it. */
export function escapeMarkdown(text: string): string {
  return text.replaceAll(/[\\`*_<>|[\]#~&]/gu, (character) => `\\${character}`);
}

/** The first line that names an error, such as Node's `Error: Cannot find module …`. */
function errorLine(text: string): string | undefined {
  // Shortened first: the pattern is slow on very long lines.
  const lines = text.split("\n").map((line) => line.slice(0, maxShownErrorLine));
  const found = lines.find((line) => /^\s*(\w*Error|error|fatal|panic)\b.*:/i.test(line));
  return found === undefined ? undefined : visibleText(found.trimEnd().replaceAll("\t", "  "));
}

function noteOf(lines: number, characters: number, word: string): string[] {
  if (characters > 0) return [`… ${countOf(characters, "character")} ${word}`];
  return lines > 0 ? [`… ${countOf(lines, "line")} ${word}`] : [];
}

/** A whole number with its thousands parted: `12,345`. */
export function formatInteger(value: number): string {
  return String(Math.round(value)).replaceAll(/\B(?=(\d{3})+$)/gu, ",");
}

/** A score with two digits; never rounded up to `1.00`, which is a perfect one. */
export function formatScore(score: number): string {
  const shown = Math.round(score * 100) / 100;
  return (score < 1 ? Math.min(shown, 0.99) : shown).toFixed(2);
}

/** A share: `12.5 %`. Only all is 100 %, and only nothing 0 %. */
export function percentText(share: number): string {
  const rounded = Math.round(share * 1000) / 10;
  if (share < 1 && rounded === 100) return "over 99.9 %";
  return share > 0 && rounded === 0 ? "under 0.1 %" : `${rounded} %`;
}

/** A difference of shares, without its sign: `12.5 points`. */
export function pointsText(share: number): string {
  const value = Math.round(Math.abs(share) * 1000) / 10;
  if (value === 0 && share !== 0) return "less than 0.1 points";
  return `${value} point${value === 1 ? "" : "s"}`;
}

/** An end of an interval of a difference of shares, in points: `+12.5`, `−3`, `0`. */
export function signedPoints(share: number): string {
  const value = Math.round(share * 1000) / 10;
  return value < 0 ? `−${-value}` : value > 0 ? `+${value}` : "0";
}

/** A number with its noun: `1 trial`, `2 trials`. */
export function countOf(count: number, noun: string): string {
  return `${formatInteger(count)} ${noun}${count === 1 ? "" : "s"}`;
}
