import { asList, asObject } from "../../base/json.ts";
import type { AgentNotice, OutputEvent, OutputReader, Preset, WireObject } from "./preset.ts";
import * as common from "./preset.ts";
import type { TurnEnd } from "../../model/event.ts";
import type { Usage } from "../../model/grade.ts";
import { asksInSession } from "./options.ts";

const claudeArgs = [
  "--print",
  "--output-format",
  "stream-json",
  "--verbose",
  "--mcp-config",
  "{mcpConfig}",
  "--strict-mcp-config",
];

/** Otherwise it goes on without a server that has not listed its tools in 30 seconds. */
const waits = { MCP_TIMEOUT: "600000" };

const claudeEfforts: readonly string[] = ["low", "medium", "high", "xhigh", "max"];

export const claudeCode: Preset = {
  title: "Claude Code",
  acp: {
    readNotice,
    command: "claude-agent-acp",
    args: [],
    env: waits,
    package: "@agentclientprotocol/claude-agent-acp",
    hides: ["changed-description"],
    mode: "default",
    // Without them, retried requests to the model are not reported, nor that a turn ended at its limit.
    sessionMeta: {
      claudeCode: {
        emitRawSDKMessages: [
          { type: "system", subtype: "api_retry" },
          { type: "system", subtype: "init" },
          { type: "result", subtype: "error_max_turns" },
        ],
        // Otherwise it asks its model for a title, and after each turn what the user may say next.
        options: { title: "mcpvals", promptSuggestions: false },
      },
    },
    model: { by: "env", variable: "ANTHROPIC_MODEL", value: "{model}" },
    options: {
      ...asksInSession,
      maxTurns: (maxTurns) => ({ session: { meta: { claudeCode: { options: { maxTurns } } } } }),
      allowedTools: (tools) => ({ session: { meta: { claudeCode: { options: { tools } } } } }),
    },
  },
  headless: {
    command: "claude",
    args: claudeArgs,
    nextArgs: [...claudeArgs, "--resume", "{session}"],
    modelArgs: common.modelFlag,
    options: {
      maxTurns: (turns) => ({ args: ["--max-turns", String(turns)] }),
      allowedTools: (tools) => ({ args: ["--tools", tools.join(",")] }),
      effort: (effort) =>
        claudeEfforts.includes(effort)
          ? { args: ["--effort", effort] }
          : `has no effort ${effort}: choose one of ${claudeEfforts.join(", ")}`,
      systemPrompt: ({ mode, text }) => ({
        args: [mode === "append" ? "--append-system-prompt" : "--system-prompt", text],
      }),
      // In the mode dontAsk, what it would ask for is denied.
      permissions: (policy) =>
        policy === "allow"
          ? { args: ["--dangerously-skip-permissions"] }
          : {
              args: ["--permission-mode", "dontAsk"],
              ...(policy === "deny" ? {} : { serverArg: "--allowedTools=mcp__{server}" }),
            },
    },
    // Required to run as root.
    env: { DISABLE_AUTOUPDATER: "1", IS_SANDBOX: "1", ...waits },
    package: "@anthropic-ai/claude-code",
    hides: ["changed-description"],
    stdin: true,
    usesClientFile: false,
    tellsRequests: true,
  },
  modelApi: { variable: "ANTHROPIC_BASE_URL", target: "https://api.anthropic.com" },
  inheritEnv: ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"],
  home: {
    variables: ["CLAUDE_CONFIG_DIR"],
    login: [
      {
        folder: ".claude",
        file: ".credentials.json",
        variable: "CLAUDE_CONFIG_DIR",
        carry: ({ claudeAiOauth }) =>
          claudeAiOauth === undefined
            ? undefined
            : { claudeAiOauth: { ...asObject(claudeAiOauth), refreshToken: null } },
      },
      {
        folder: "",
        file: ".claude.json",
        variable: "CLAUDE_CONFIG_DIR",
        carry: (content) => common.membersOf(content, ["oauthAccount", "primaryApiKey"]),
      },
    ],
    files: { ".claude/settings.json": '{ "disableClaudeAiConnectors": true }\n' },
    above: ["CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", ".claude", ".mcp.json"],
  },
  skills: { mountPath: ".claude/skills", tool: "Skill" },
  toolNames: [common.doubleUnderscore],
  clientFile: {
    file: ".mcp.json",
    format: "json",
    key: "mcpServers",
    http: common.typedHttp,
    bridge: common.typedProgram,
  },
  createReader,
};

/** Creates the reader of what `claude --print --output-format stream-json --verbose` prints. */
function createReader(): OutputReader {
  const names = new Map<string, string>();
  const requests = new Set<string>();
  return {
    lastEvent: "result",
    finish: () => [],
    read(line) {
      switch (line["type"]) {
        case "system": {
          if (line["subtype"] === "api_retry") return readRetry(line);
          const session = line["subtype"] === "init" ? common.sessionEvent(line["session_id"]) : [];
          const { program } = claudeProgram(line);
          return session.length === 0 || program === undefined
            ? session
            : [...session, { kind: "ran", program }];
        }
        case "assistant": {
          const id = common.textOf(asObject(line["message"])["id"]);
          if (id !== undefined) requests.add(id);
          return readBlocks(line, names);
        }
        case "user":
          return readBlocks(line, names);
        case "result": {
          const count = requests.size;
          requests.clear();
          const models = Object.keys(asObject(line["modelUsage"]));
          return [
            ...models.map((model) => ({ kind: "ran", model }) as const),
            ...readEnd(line, count),
            { kind: "complete" },
          ];
        }
        default:
          return [];
      }
    },
  };
}

function readRetry(line: WireObject): readonly OutputEvent[] {
  const text = apiRetry(line);
  return [{ kind: "note", text }, ...(isRefusal(line) ? [{ kind: "refused", message: text } as const] : [])];
}

function readBlocks(line: WireObject, names: Map<string, string>): readonly OutputEvent[] {
  const message = asObject(line["message"]);
  const parent = common.textOf(line["parent_tool_use_id"]);
  const blocks = asList(message["content"]).flatMap((item) =>
    common.readBlock(asObject(item), parent, names),
  );
  const reason = ends[common.textOf(message["stop_reason"]) ?? ""];
  return reason === undefined || parent !== undefined ? blocks : [...blocks, { kind: "end", reason }];
}

/** The last one counts: a program may continue after a response that was cut off. */
const ends: Readonly<Record<string, TurnEnd>> = {
  max_tokens: "max-tokens",
  model_context_window_exceeded: "context-overflow",
  refusal: "refused",
  end_turn: "done",
  stop_sequence: "done",
  tool_use: "done",
};

function usageOfResult(line: WireObject, requests?: number): Usage {
  const { input, ...others } = common.tokensOf(asObject(line["usage"]), {
    input: "input_tokens",
    output: "output_tokens",
    cacheRead: "cache_read_input_tokens",
    cacheWrite: "cache_creation_input_tokens",
  });
  const tokens = { ...others, input: input + others.cacheRead + others.cacheWrite };
  return common.usageOf(tokens, requests, line["total_cost_usd"]);
}

function readEnd(line: WireObject, requests: number): readonly OutputEvent[] {
  const reason = ends[common.textOf(line["stop_reason"]) ?? ""];
  const events: OutputEvent[] = [
    { kind: "usage", usage: usageOfResult(line, requests) },
    // Newer versions report only here how the last response ended.
    ...(reason === undefined ? [] : [{ kind: "end", reason } as const]),
  ];
  const subtype = common.textOf(line["subtype"]) ?? "";
  if (subtype === "error_max_turns") return [...events, { kind: "end", reason: "max-steps" }];
  if (line["is_error"] !== true && subtype === "success") return events;
  const errors = asList(line["errors"]).flatMap((item) => common.textOf(item) ?? []);
  return [
    ...events,
    { kind: "failed", message: common.textOf(line["result"]) ?? (errors.join("; ") || subtype) },
  ];
}

function readNotice(update: WireObject): AgentNotice {
  if (update["type"] === "result") return { end: { reason: "max-steps", usage: usageOfResult(update) } };
  if (update["type"] === "system" && update["subtype"] === "api_retry") {
    return { note: apiRetry(update), ...(isRefusal(update) ? { isRefused: true } : {}) };
  }
  if (update["type"] === "system" && update["subtype"] === "init") {
    return claudeProgram(update);
  }
  const { kind } = asObject(asObject(update["_meta"])["claudeCode"]);
  return kind === undefined ? {} : common.noteOf(common.chunkText(update));
}

/** The version in the first message of a session, in either form. */
function claudeProgram(init: WireObject): { readonly program?: string } {
  const version = common.textOf(init["claude_code_version"]);
  return version === undefined ? {} : { program: `claude-code ${version}` };
}

/** The notice of a request to the model that is retried, in either form. */
function apiRetry({ attempt, max_retries: most, error_status: status, error }: WireObject): string {
  const reason = typeof status === "number" ? `HTTP ${status}` : "no connection";
  const said = common.textOf(error);
  const detail = said === undefined ? "" : `, ${said}`;
  return `a request to the model failed (${reason}${detail}) and is retried: attempt ${String(attempt)} of ${String(most)}`;
}

/** Whether such a request failed because of its key. */
function isRefusal({ error_status: status }: WireObject): boolean {
  return status === 401 || status === 403;
}
