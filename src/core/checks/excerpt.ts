import type { Json } from "../formats/model.ts";
import { previewJson } from "../formats/preview-json.ts";

/** Longest text that is shown whole, in characters. */
const longest = 1000;
/** How far a cut may move so that it does not go through a word: half a secret is a secret that nobody recognises. */
const longestWord = 300;

/** A text as evidence: whole where it is short, else the part around a place, with `…` where something is left out. */
export function excerpt(text: string, at = 0): string {
  if (text.length <= longest) return text;
  const from = Math.min(Math.max(0, at - longest / 2), text.length - longest);
  const to = from + longest;
  const start = from === 0 ? 0 : wordAfter(text, from);
  const end = to === text.length ? to : wordBefore(text, to);
  return `${start === 0 ? "" : "…"}${text.slice(start, end)}${end === text.length ? "" : "…"}`.toWellFormed();
}

/** A JSON value as evidence: itself where it is small, else the beginning of its JSON as a text. */
export function shownJson(value: Json): Json {
  if (typeof value === "string") return excerpt(value);
  const shown = previewJson(value, longest);
  return shown.length > longest ? shown : value;
}

function wordAfter(text: string, from: number): number {
  const space = text.slice(from, from + longestWord).search(/\s/);
  return space === -1 ? from : from + space;
}

function wordBefore(text: string, to: number): number {
  const space = text.slice(to - longestWord, to).search(/\s\S*$/);
  return space === -1 ? to : to - longestWord + space + 1;
}
