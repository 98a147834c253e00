import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json } from "../model.ts";
import type { Problem } from "../problem.ts";
import { checkFilePath } from "./check-paths.ts";
import type { TaskFiles } from "./task-options.ts";

/** One user turn, and where it, or the name of its file, stands. */
export interface PromptTurn {
  readonly text: string;
  readonly path: KeyPath;
}

export interface ReadPrompt {
  readonly turns: readonly PromptTurn[];
  /** What is wrong with files; the schema tells the rest. */
  readonly problems: readonly Problem[];
}

/** Reads what the agent is told: a text, a file, or a list of these. No prompt: no turns. */
export function readPrompt(prompt: Json | undefined, files: TaskFiles): ReadPrompt {
  const path = ["spec", "prompt"];
  const parts = Array.isArray(prompt)
    ? prompt.map((part: Json, index) => readTurn(part, [...path, index], files))
    : [readTurn(prompt, path, files)];
  return {
    turns: parts.flatMap(({ turns }) => turns),
    problems: parts.flatMap(({ problems }) => problems),
  };
}

function readTurn(part: Json | undefined, path: KeyPath, files: TaskFiles): ReadPrompt {
  if (typeof part === "string") return { turns: [{ text: part, path }], problems: [] };
  const file = isJsonObject(part) ? part["file"] : undefined;
  return typeof file === "string" && file.trim() !== ""
    ? readFile(file, [...path, "file"], files)
    : { turns: [], problems: [] };
}

function readFile(file: string, path: KeyPath, files: TaskFiles): ReadPrompt {
  const problems = checkFilePath(file, path, { files, wanted: "file" });
  if (problems.length > 0) return { turns: [], problems };
  const text = files.read(file);
  if (text !== undefined && text.trim() !== "")
    return { turns: [{ text: text.trimEnd(), path }], problems: [] };
  const what = text === undefined ? "cannot be read as text" : "is blank";
  const message = `${formatKeyPath(path)}: the file ${JSON.stringify(file)} ${what}`;
  return { turns: [], problems: [{ code: "config/invalid-value", message, path, at: "value" }] };
}
