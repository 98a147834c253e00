import { countOf } from "./numbers.ts";
import { visibleLines, visibleText } from "../../core/text/visible-text.ts";

const errorCharacters = 300;

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
    const tail = extra > 0 ? lines.slice(extra) : lines;
    const before = [trimmed.slice(0, Math.max(0, cut)), lines.slice(0, Math.max(0, extra)).join("\n")];
    const error = errorLine(before.join(""));
    if (error !== undefined) return [error, "…", ...tail.slice(Math.max(0, tail.length - limits.lines + 1))];
    return [...noteOf(Math.max(0, extra), cut, "before"), ...tail];
  }
  const shown = extra > 0 ? lines.slice(0, limits.lines) : lines;
  return [...shown, ...noteOf(Math.max(0, extra), cut, "more")];
}

/** Text of others on one line, shortened to about `characters`. */
export function clipText(text: string, characters: number): string {
  if (text.length <= characters) return visibleText(text);
  return `${visibleText(text.slice(0, characters))}… (${countOf(text.length - characters, "more character")})`;
}

/** The first line that names an error, such as Node's `Error: Cannot find module …`. */
function errorLine(text: string): string | undefined {
  // Shortened first: the pattern is slow on very long lines.
  const lines = text.split("\n").map((line) => line.slice(0, errorCharacters));
  const found = lines.find((line) => /^\s*(\w*Error|error|fatal|panic)\b.*:/i.test(line));
  return found === undefined ? undefined : visibleText(found.trimEnd().replaceAll("\t", "  "));
}

function noteOf(lines: number, characters: number, word: string): string[] {
  if (characters > 0) return [`… ${countOf(characters, "character")} ${word}`];
  return lines > 0 ? [`… ${countOf(lines, "line")} ${word}`] : [];
}
