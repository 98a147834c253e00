import { isJsonObject } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import type { Check } from "../../core/trace/events.ts";
import { clipLines, clipText } from "./clip.ts";
import { diffLines, type DiffLine } from "./line-diff.ts";
import type { Tone } from "./style.ts";
import type { Piece, Row } from "./rows.ts";

const valueCharacters = 600;
const diffedCharacters = 50_000;
const shownDiffLines = 24;
const shownLines = { lines: 12, characters: 1200 } as const;

/** Shows what a check expected and what there was: as a diff where both have lines; not what `said` already states. */
export function checkRows(check: Check, said: string): Row[] {
  const diff = diffRow(check);
  if (diff !== undefined) return [diff];
  const { name, expected, actual } = check;
  return [
    ...(isWord(name, "expected", expected)
      ? wordRow("expected", expected, said)
      : valueRow("expected", expected, said)),
    ...(actual === null
      ? []
      : isWord(name, "actual", actual)
        ? wordRow("actual", actual, said)
        : valueRow("actual", actual, said)),
  ];
}

/** Checks, by name, of which we put into our own words what is expected, or also what is there. */
const worded: Readonly<Record<string, readonly ("expected" | "actual")[]>> = {
  exists: ["expected", "actual"],
  file: ["expected", "actual"],
  not: ["expected", "actual"],
  call: ["expected"],
  items: ["expected"],
  input: ["expected"],
};

function isWord(name: string, side: "expected" | "actual", value: Json): value is string {
  return typeof value === "string" && Object.hasOwn(worded, name) && worded[name]?.includes(side) === true;
}

/** Words are no data, so they are not quoted. */
function wordRow(label: string, words: string, said: string): Row[] {
  return states(said, words) ? [] : [{ label, pieces: [{ text: clipText(words, valueCharacters) }] }];
}

function valueRow(label: string, value: Json, said: string): Row[] {
  if (typeof value === "string" && value.trimEnd().includes("\n")) {
    return [{ label, pieces: clipLines(value, shownLines).map((text) => ({ text })) }];
  }
  const json = JSON.stringify(value);
  return states(said, json) ? [] : [{ label, pieces: [{ text: clipText(json, valueCharacters) }] }];
}

/** Whether a sentence states a value as a whole word. */
function states(said: string, json: string): boolean {
  for (let at = said.indexOf(json); at !== -1; at = said.indexOf(json, at + 1)) {
    const before = said[at - 1] ?? " ";
    const after = said.slice(at + json.length, at + json.length + 2);
    if (!/[\w.-]/u.test(before) && !/^(?:\w|\.\d)/u.test(after)) return true;
  }
  return false;
}

function diffRow({ expected, actual }: Check): Row | undefined {
  const exact = isJsonObject(expected) && "$equals" in expected;
  const wanted = exact ? (expected["$equals"] ?? null) : expected;
  const before = linesOf(wanted);
  const after = linesOf(alignTo(wanted, actual, exact)) ?? [];
  if (before === undefined || after.length === 0) return undefined;
  const pruned = diffLines(before, after);
  const diff = pruned.length > 0 ? pruned : diffLines(before, linesOf(actual) ?? []);
  if (diff.length === 0) return undefined;
  const shown = diff.slice(0, shownDiffLines).map(paintDiffLine);
  const rest = diff.length - shown.length;
  const more: Piece[] = rest > 0 ? [{ text: `  … ${rest} more lines`, tone: "dim" }] : [];
  return {
    label: "diff",
    pieces: [{ text: "- expected  + actual", tone: "dim" }, ...shown, ...more],
  };
}

/** The lines of a value that has several: text with line breaks, a list or an object. */
function linesOf(value: Json): string[] | undefined {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  if (!text.includes("\n")) return undefined;
  return clipLines(text, { lines: Infinity, characters: diffedCharacters });
}

const marks: Readonly<Record<DiffLine["kind"], { mark: string; tone: Tone }>> = {
  same: { mark: " ", tone: "dim" },
  gap: { mark: " ", tone: "dim" },
  removed: { mark: "-", tone: "bad" },
  added: { mark: "+", tone: "good" },
};

function paintDiffLine({ kind, text }: DiffLine): Piece {
  const { mark, tone } = marks[kind];
  return { text: `${mark} ${text}`, tone };
}

/** Brings the keys of a value into the order of what was expected; keys that nobody asked about go, unless `exact`. */
function alignTo(expected: Json, actual: Json, exact: boolean): Json {
  if (isList(expected) && isList(actual)) {
    return actual.map((item, index) => alignTo(expected[index] ?? null, item, exact));
  }
  if (!isJsonObject(expected) || !isJsonObject(actual)) return actual;
  const shared = Object.keys(expected).filter((key) => Object.hasOwn(actual, key));
  const others = exact ? Object.keys(actual).filter((key) => !Object.hasOwn(expected, key)) : [];
  return Object.fromEntries(
    [...shared, ...others].map((key) => [key, alignTo(expected[key] ?? null, actual[key] ?? null, exact)]),
  );
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
