import { countOf } from "./numbers.ts";
import { visibleLines, visibleText } from "../../core/report/visible-text.ts";

/** How much of a text to show. */
export interface ClipLimits {
  readonly lines: number;
  readonly characters: number;
  /** Which end matters more; the head unless given. */
  readonly keep?: "head" | "tail";
}

/** Text of others as printable lines, shortened; what was left out is said in its place. */
export function clipLines(text: string, limits: ClipLimits): string[] {
  const { characters, keep = "head" } = limits;
  const trimmed = text.replace(/[\r\n]+$/u, "");
  const cut = trimmed.length - characters;
  const kept =
    cut <= 0
      ? trimmed
      : keep === "head"
        ? trimmed.slice(0, characters)
        : trimmed.slice(trimmed.length - characters);
  const lines = visibleLines(kept);
  const extra = lines.length - limits.lines;
  if (keep === "tail") {
    const note = noteOf(Math.max(0, extra), cut, "before");
    return [...note, ...(extra > 0 ? lines.slice(extra) : lines)];
  }
  const shown = extra > 0 ? lines.slice(0, limits.lines) : lines;
  return [...shown, ...noteOf(Math.max(0, extra), cut, "more")];
}

/** Text of others on one line, shortened to about `characters`. */
export function clipText(text: string, characters: number): string {
  if (text.length <= characters) return visibleText(text);
  return `${visibleText(text.slice(0, characters))}… (${countOf(text.length - characters, "more character")})`;
}

function noteOf(lines: number, characters: number, word: string): string[] {
  if (characters > 0) return [`… ${countOf(characters, "character")} ${word}`];
  return lines > 0 ? [`… ${countOf(lines, "line")} ${word}`] : [];
}
