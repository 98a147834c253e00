/** What the text of a program shows of it before it runs. */
export interface ProgramText {
  readonly text: string;
  /** The shell that gets the text, unless its first line names another program; absent: the usual one. */
  readonly shell?: string;
}

/**
 * `idle`: there is nothing in it that does anything. `constant`: it writes the same text, always. `cannot-fail`: it does
 * something, but ends with a command that always succeeds, and with nothing before it that could end it.
 */
export type Idleness = "idle" | "constant" | "cannot-fail";

/**
 * Whether a program, by its exit code alone, could say that something does not hold; undefined: it may, as far as this can
 * tell. Only shells are looked into, and only for what people write there. Templates are unknown text.
 */
export function idlenessOf({ text, shell = "sh" }: ProgramText): Idleness | undefined {
  const [, first] =
    /^\s*#!\s*(?:\S*\/)?(?:env\s+(?:-S\s+)?)?(?:\S*\/)?(\S+)/.exec(text.slice(0, longestFirstLine)) ?? [];
  const interpreter = first ?? shell.split("/").at(-1) ?? "";
  if (noShell.test(interpreter)) return "idle";
  const comment = javaScript.test(interpreter) ? /^\s*(?:\/\/|#!|$)/ : /^\s*(?:#|$)/;
  const lines = text.split(/\r?\n/).filter((line) => !comment.test(line));
  if (lines.length === 0) return "idle";
  return shells.test(interpreter) ? idlenessOfShell(lines.join("\n").replaceAll("\\\n", " ")) : undefined;
}

const longestFirstLine = 1000;
const shells = /^(?:ba|da|z|k|mk|a)?sh$/;
/** These run nothing of what they are given. */
const noShell = /^(?:true|false|nologin)$/;
const javaScript = /^(?:node|bun|deno|tsx|ts-node)/;

/** Commands that do nothing and succeed. */
const idle =
  /^(?:(?:(?:command|builtin)\s+)?(?:(?:\/usr)?\/bin\/)?(?:true|:)(?:\s[^<>$`]*)?|exit(?:\s+0)?|set\s[^<>$`]*)$/;
/** One text, without anything that a shell or a template puts into it. */
const constant = /^(?:echo|printf)\s+(?:'(?:[^'{]|\{(?!\w))*'|"(?:[^"$`\\{]|\{(?!\w))*"|[\w.,:/-]+)$/;
/** Those, others that always succeed, and those that only make or remove something. */
const succeeding =
  /^(?:(?:true|:|pwd|date|sleep|export)(?:\s[^<>]*)?|(?:echo|printf)(?:\s[^<>]*)?(?:>{1,2}[^<>]*)?|(?:mkdir\s+-\w*p|rm\s+-\w*f|touch)\w*\s[^<>]*|exit\s+0|\w+=[^\s$`(]*)$/;
/** What may end a shell, or decide with what it ends, before its last command. */
const ending =
  /\b(?:exit\s+(?!0\b)\S|exec|eval|source|trap|kill|return)\b|\bset\s+[-+]|\$\{\w*:?\?|^\s*\.\s|[;&|\n]\s*\.\s/;
/** Writing errors, or nothing, does not fail. */
const harmless = /\d?>&\d|[\d&]?>\s*\/dev\/null/g;

function idlenessOfShell(text: string): Idleness | undefined {
  const plain = text
    .replaceAll(harmless, "")
    .replaceAll(/\s#.*$/gm, "")
    .trim();
  const commands = plain.split(/[;&|\n(){}]+/).map((command) => command.trim());
  if (commands.every((command) => command === "" || idle.test(command))) return "idle";
  if (constant.test(plain)) return "constant";
  if (ending.test(plain)) return undefined;
  // Whoever starts something in the background has succeeded.
  if (/[^&]&$/.test(plain)) return "cannot-fail";
  return lastCommands(plain).every(isSucceeding) ? "cannot-fail" : undefined;
}

/** Of `a && b` the first counts too; of `a || b`, `a; b` and `a | b` only the last. */
function isSucceeding(command: string): boolean {
  if (command.includes("&")) return false;
  return succeeding.test((command.split("|").at(-1) ?? "").trim());
}

const mostParts = 1000;

/** The commands of which one decides how a shell ends: the last one, of a loop the last inside, of a condition the last of each branch. */
function lastCommands(text: string): readonly string[] {
  const parts = text.split(/;|\n|\|\|/).map((part) => part.trim());
  if (parts.length > mostParts) return [parts.at(-1) ?? ""];
  const ends = parts.pop() ?? "";
  if (ends === "done") return [(parts.pop() ?? "").replace(/^do\s+/, "")];
  if (ends !== "fi" || !parts[0]?.startsWith("if ")) return [ends];
  const isBranch = parts.map((part) => /^(?:then|else)\b/.test(part));
  // Nested conditions are not analysed.
  if (
    parts.some((part, index) => index > 0 && /^(?:then\s+|else\s+)?(?:if|case|for|while|until)\b/.test(part))
  )
    return [ends];
  if (parts.some((part) => part.startsWith("elif"))) return [ends];
  const begins = isBranch.flatMap((is, index) => (is ? [index] : []));
  if (begins.length === 0) return [ends];
  return begins.map((_, index) =>
    (parts[(begins[index + 1] ?? parts.length) - 1] ?? "").replace(/^(?:then|else)\s+/, ""),
  );
}
