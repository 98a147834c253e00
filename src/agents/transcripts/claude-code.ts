import { closeSync, existsSync, readdirSync, readSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { asList, asObject } from "../../base/json.ts";
import { openRegularFile } from "../../base/files.ts";
import { maxDocumentBytes } from "../../base/limits.ts";
import type { Usage } from "../../model/grade.ts";
import { addUsage } from "../../trace/trajectory.ts";
import { claudeCode } from "../programs/claude-code.ts";
import { parseObject } from "../program-lines.ts";
import type { OutputEvent, WireObject } from "../programs/preset.ts";
import * as common from "../programs/preset.ts";
import {
  compacted,
  entriesAt,
  textOfParts,
  timeOf,
  type TranscriptEntry,
  type TranscriptFormat,
  type TranscriptPart,
  type TranscriptReader,
} from "./transcript.ts";

/** In newer and older versions. */
const subagentTools = new Set(["Agent", "Task"]);

/** Claude Code's: JSON Lines, a file for each session; a message of the model has a line for each of its blocks. */
export const claudeCodeTranscript: TranscriptFormat = {
  program: "claude-code",
  place: "~/.claude/projects/PROJECT/SESSION.jsonl",
  recognises: ({ type, sessionId, uuid, version, message }) =>
    typeof sessionId === "string" &&
    (type === "user" || type === "assistant") &&
    typeof uuid === "string" &&
    typeof version === "string" &&
    typeof message === "object",
  createReader,
  subagentTools,
  // A server's name has other characters replaced by `_`.
  originIn(name) {
    const [, server, tool] = /^mcp__(.+?)__(.+)$/s.exec(name) ?? [];
    return server === undefined || tool === undefined ? undefined : { server, tool };
  },
  partsOf,
};

/** Types of lines that say nothing of what the agent did. */
const idle = new Set(
  `agent-name ai-title api-request api-request-blob api-request-shape atis-latch attachment cost-state custom-title file-history-delta file-history-snapshot
  last-prompt mode permission-mode pr-link progress queue-operation relocated started summary tag tools-used worktree-state`.split(
    /\s+/,
  ),
);

const interrupted = "[Request interrupted by user";
/** Texts in the place of the user's that the program puts there itself. */
const ofProgram = /^<(?:task-notification|local-command-(?:stdout|stderr|caveat)|bash-(?:stdout|stderr))>/;

function isResult(block: WireObject): boolean {
  return block["type"] === "tool_result";
}

function createReader(): TranscriptReader {
  const blocks = claudeCode.createReader();
  const usages = new Map<string, Usage>();
  /** Uses of subagents that have not ended. */
  const open = new Set<string>();
  let total: Usage | undefined;

  const readBlocks = (line: WireObject, content: readonly unknown[]): readonly OutputEvent[] => {
    const [parent, ...others] = open;
    const isSidechain = line["isSidechain"] === true;
    // A side chain without a known parent is one all the same.
    const parentId = isSidechain
      ? others.length === 0 && parent !== undefined
        ? parent
        : "subagent"
      : undefined;
    const message = { ...asObject(line["message"]), content };
    const isOver = asObject(line["message"])["stop_reason"] !== "tool_use";
    const events = blocks
      .read({ type: line["type"], message, parent_tool_use_id: parentId })
      .filter(({ kind }) => isOver || kind !== "end");
    for (const event of events) {
      if (event.kind !== "tool" || isSidechain) continue;
      if (event.status === "started" && subagentTools.has(event.name)) open.add(event.callId);
      if (event.status !== "started") open.delete(event.callId);
    }
    return events;
  };

  const readAnswer = (line: WireObject): TranscriptEntry[] => {
    const message = asObject(line["message"]);
    const content = asList(message["content"]);
    // The program's own words in the place of an answer.
    if (line["isApiErrorMessage"] === true || message["model"] === "<synthetic>") {
      const text = textOfParts(content.map(asObject));
      const isFailure = line["isApiErrorMessage"] === true && line["isSidechain"] !== true;
      return isFailure ? [{ kind: "failed", message: text }] : [{ kind: "note", text }];
    }
    const id = common.textOf(message["id"]);
    // Each line of a message repeats its tokens, of which the last ones count.
    if (id !== undefined && message["usage"] !== undefined)
      usages.set(id, usageOf(asObject(message["usage"])));
    total = undefined;
    const model = common.textOf(message["model"]);
    return [
      ...programIn(line),
      ...(model === undefined ? [] : [{ kind: "ran", model } as const]),
      ...readBlocks(line, content),
    ];
  };

  const readUser = (line: WireObject): TranscriptEntry[] => {
    const { content: given } = asObject(line["message"]);
    const content = typeof given === "string" ? [{ type: "text", text: given }] : asList(given).map(asObject);
    const results = content.some(isResult) ? readBlocks(line, content.filter(isResult)) : [];
    const text = textOfParts(content.filter((block) => !isResult(block)));
    if (line["isSidechain"] === true) return [...results];
    if (text.startsWith(interrupted)) return [...results, { kind: "end", reason: "cancelled" }];
    if (line["isCompactSummary"] === true) return [...results, { kind: "remark", text: compacted }];
    const isOfUser = text !== "" && line["isMeta"] !== true && !ofProgram.test(text);
    if (!isOfUser) return [...results];
    const command = /<command-name>(.*?)<\/command-name>/s.exec(text)?.[1];
    if (command === undefined) return [...programIn(line), ...results, { kind: "user", text }];
    const args = /<command-args>(.*?)<\/command-args>/s.exec(text)?.[1] ?? "";
    return [...results, { kind: "user", text: `${command} ${args}`.trim(), isCommand: true }];
  };

  return {
    read(line) {
      const at = timeOf(line["timestamp"]);
      const type = common.textOf(line["type"]) ?? "without a type";
      switch (type) {
        case "user":
          return entriesAt(at, readUser(line));
        case "assistant":
          return entriesAt(at, readAnswer(line));
        case "system":
          return line["subtype"] === "api_error"
            ? entriesAt(at, [{ kind: "note", text: "a request to the model failed and is retried" }])
            : [];
        case "cost-state":
          total = totalOf(line);
          return [];
        default:
          return idle.has(type) ? [] : entriesAt(at, [{ kind: "unknown", type }]);
      }
    },
    finish() {
      let sum: Usage | undefined;
      for (const usage of usages.values()) sum = addUsage(sum, usage);
      // It also sends requests that have no line, such as for titles; what it adds up itself at its end has them.
      const isWhole = total !== undefined && sum !== undefined && total.inputTokens >= sum.inputTokens;
      if (isWhole && total !== undefined) return [{ kind: "usage", usage: total }];
      return sum === undefined ? [] : [{ kind: "usage", usage: { ...sum, isPartial: true } }];
    },
  };
}

function programIn({ version }: WireObject): readonly OutputEvent[] {
  const text = common.textOf(version);
  return text === undefined ? [] : [{ kind: "ran", program: `claude-code ${text}` }];
}

function usageOf(tokens: WireObject): Usage {
  const { input, ...others } = common.tokensOf(tokens, {
    input: "input_tokens",
    output: "output_tokens",
    cacheRead: "cache_read_input_tokens",
    cacheWrite: "cache_creation_input_tokens",
  });
  return common.usageOf({ ...others, input: input + others.cacheRead + others.cacheWrite });
}

/** What the program itself says of all of the session, when it ends. */
function totalOf(line: WireObject): Usage | undefined {
  let sum: Usage | undefined;
  for (const tokens of Object.values(asObject(line["modelUsage"]))) {
    const { input, ...others } = common.tokensOf(asObject(tokens), {
      input: "inputTokens",
      output: "outputTokens",
      cacheRead: "cacheReadInputTokens",
      cacheWrite: "cacheCreationInputTokens",
    });
    sum = addUsage(sum, common.usageOf({ ...others, input: input + others.cacheRead + others.cacheWrite }));
  }
  const amount = line["hasUnknownModelCost"] === false ? common.countOf(line["totalCostUSD"]) : 0;
  return sum === undefined || amount === 0 ? sum : { ...sum, cost: { amount, currency: "USD" } };
}

/** Subagents have files in a folder of the session, in older versions beside it. */
function partsOf(file: string, session: string): readonly TranscriptPart[] {
  const folder = join(dirname(file), basename(file, ".jsonl"), "subagents");
  const own = existsSync(folder) ? readdirSync(folder).filter(isPart).toSorted() : [];
  const beside = readdirSync(dirname(file)).filter(
    (name) => isPart(name) && name !== basename(file) && sessionIn(join(dirname(file), name)) === session,
  );
  return [
    ...own.map((name) => ({ file: join(folder, name), ...parentOf(join(folder, name)) })),
    ...beside.toSorted().map((name) => ({ file: join(dirname(file), name) })),
  ];
}

function isPart(name: string): boolean {
  return name.startsWith("agent-") && name.endsWith(".jsonl");
}

function parentOf(file: string): Pick<TranscriptPart, "parentCallId"> {
  const about = readObject(file.replace(/\.jsonl$/, ".meta.json"));
  const id = common.textOf(about?.["toolUseId"]);
  return id === undefined ? {} : { parentCallId: id };
}

function sessionIn(file: string): string | undefined {
  return common.textOf(readObject(file)?.["sessionId"]);
}

/** First bytes of a file that have its first line. */
const firstBytes = 256 * 1024;

/** The object of a small file, or in the first line of any other; undefined without one. */
function readObject(file: string): WireObject | undefined {
  try {
    const opened = openRegularFile(file, maxDocumentBytes);
    try {
      const bytes = Buffer.alloc(firstBytes);
      const text = bytes.toString("utf8", 0, readSync(opened, bytes));
      return parseObject(text) ?? parseObject(text.split("\n", 1)[0] ?? "");
    } finally {
      closeSync(opened);
    }
  } catch {
    return undefined;
  }
}
