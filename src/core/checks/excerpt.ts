import type { Json } from "../formats/model.ts";
import { previewJson } from "../formats/read-json.ts";

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

/** Longest value that `outlinedJson` shows whole, in characters of its JSON, and longest member of one that it does not. */
const longestOutline = 400;
const longestMember = 60;
const mostMembers = 12;

/** A JSON value for somebody who looks for its keys: itself where it is small, else with its long members only named. */
export function outlinedJson(value: Json): Json {
  if (typeof value === "string") return excerpt(value);
  if (isShorter(value, longestOutline) || typeof value !== "object" || value === null) return value;
  if (isList(value)) return [...value.slice(0, mostMembers).map(named), ...more(value.length)];
  const entries = Object.entries(value);
  const shown = entries.slice(0, mostMembers).map(([key, member]) => [key, named(member)] as const);
  return Object.fromEntries([...shown, ...more(entries.length).map((rest) => ["…", rest] as const)]);
}

function more(count: number): readonly string[] {
  return count > mostMembers ? [`${count - mostMembers} more`] : [];
}

/** What is long is not cut, but counted. */
function named(member: Json): Json {
  if (isShorter(member, longestMember) || typeof member !== "object" || member === null)
    return typeof member === "string" && member.length > longestMember
      ? `a text of ${member.length} characters`
      : member;
  return isList(member) ? `a list of ${member.length}` : `an object of ${Object.keys(member).length}`;
}

function isShorter(value: Json, characters: number): boolean {
  return previewJson(value, characters).length <= characters;
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function wordAfter(text: string, from: number): number {
  const space = text.slice(from, from + longestWord).search(/\s/);
  return space === -1 ? from : from + space;
}

function wordBefore(text: string, to: number): number {
  const space = text.slice(to - longestWord, to).search(/\s\S*$/);
  return space === -1 ? to : to - longestWord + space + 1;
}
