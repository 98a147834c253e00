import type { CommandOutput } from "../../../core/formats/model.ts";
import { readClaudeCode } from "./claude-code.ts";
import { readCodex } from "./codex.ts";
import { readCopilot } from "./copilot.ts";
import { readGemini } from "./gemini.ts";
import { readOpencode } from "./opencode.ts";
import type { OutputReader } from "./output-reader.ts";

const readers: Readonly<Record<Exclude<CommandOutput, "text">, () => OutputReader>> = {
  "claude-code": readClaudeCode,
  codex: readCodex,
  gemini: readGemini,
  copilot: readCopilot,
  opencode: readOpencode,
};

/** Makes the reader of a format of lines of JSON; undefined for `text`, where all that is printed is the message. */
export function createOutputReader(output: CommandOutput): OutputReader | undefined {
  return output === "text" ? undefined : readers[output]();
}
