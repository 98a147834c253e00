import type { AgentPreset } from "../../core/formats/model.ts";
import { objectOf, textOf, type WireObject } from "./acp-values.ts";

/** What an agent tells of itself, beside what it says to the user. */
export interface Aside {
  /** Words that are none of its answer: a notice, an attempt that is made again. */
  readonly note?: string;
  /** Why its model could not be asked; null: it can be asked again. */
  readonly failure?: string | null;
  /** Its key was refused: no further attempt mends that. */
  readonly isRefused?: true;
  /** The program, with its version. */
  readonly program?: string;
}

/**
 * Reads what an agent tells of itself in an update of the session, or in a message of its own (`_claude/sdkMessage`). The
 * protocol has no place for it, so each agent has one of its own.
 */
export function readAside(update: WireObject, preset: AgentPreset | undefined): Aside {
  switch (preset) {
    case "claude-code":
      return readClaudeCode(update);
    case "codex":
      return readCodex(update);
    case "copilot":
      return readCopilot(update);
    default:
      return {};
  }
}

function readClaudeCode(update: WireObject): Aside {
  if (update["type"] === "system" && update["subtype"] === "api_retry") {
    return { note: apiRetry(update), ...(isRefusal(update) ? { isRefused: true } : {}) };
  }
  if (update["type"] === "system" && update["subtype"] === "init") {
    return claudeProgram(update);
  }
  const { kind } = objectOf(objectOf(update["_meta"])["claudeCode"]);
  return kind === undefined ? {} : noted(chunkOf(update));
}

/** What the first message of a session of Claude Code tells of itself, in either of its forms. */
export function claudeProgram(init: WireObject): { readonly program?: string } {
  const version = textOf(init["claude_code_version"]);
  return version === undefined ? {} : { program: `claude-code ${version}` };
}

/** What Claude Code tells of a request to its model that it makes again, in either of its forms. */
export function apiRetry({ attempt, max_retries: most, error_status: status, error }: WireObject): string {
  const reason = typeof status === "number" ? `HTTP ${status}` : "no connection";
  const said = textOf(error);
  const detail = said === undefined ? "" : `, ${said}`;
  return `a request to the model failed (${reason}${detail}) and is made again: attempt ${String(attempt)} of ${String(most)}`;
}

/** Whether such a request failed for its key. */
export function isRefusal({ error_status: status }: WireObject): boolean {
  return status === 401 || status === 403;
}

/** Its own words have no `messageId`, those of its model have one; the last of its own after an error say what it was. */
function readCodex(update: WireObject): Aside {
  const { error, threadStatus } = objectOf(objectOf(update["_meta"])["codex"]);
  if (threadStatus !== undefined) {
    const failed = objectOf(threadStatus)["type"] === "systemError";
    return { failure: failed ? "its model could not be asked" : null };
  }
  if (error !== undefined) {
    const { message, additionalDetails, willRetry } = objectOf(error);
    const note = [message, additionalDetails].flatMap((text) => textOf(text) ?? []).join(": ");
    return { note, ...(willRetry === false ? { failure: note } : {}) };
  }
  return update["messageId"] === undefined ? noted(chunkOf(update)) : {};
}

/** Its own words are told from those of its model by how they begin, and come in one piece. */
function readCopilot(update: WireObject): Aside {
  const said = chunkOf(update);
  if (said === undefined) return {};
  if (/^Info: .*Retrying\.\.\.$/.test(said)) return { note: said };
  return { failure: said.startsWith("Error: ") ? said.slice("Error: ".length) : null };
}

function noted(note: string | undefined): Aside {
  return note === undefined ? {} : { note };
}

function chunkOf({ sessionUpdate, content }: WireObject): string | undefined {
  return sessionUpdate === "agent_message_chunk" ? textOf(objectOf(content)["text"]) : undefined;
}
