import { asObject } from "../../base/json.ts";
import type { AgentNotice, OutputEvent, OutputReader, Preset, ToolUse, WireObject } from "./preset.ts";
import * as common from "./preset.ts";
import { asksInSession } from "./options.ts";

const codexArgs = [
  "--json",
  "--skip-git-repo-check",
  // It reads the config file of trusted folders only. Dots in a quoted key would split the path.
  "--config",
  `projects={'{cwd}'={trust_level="trusted"}}`,
];

const limitsOtherwise = "has no limit of its turns: set limits.maxToolCalls or limits.maxTokens";
const toolsOtherwise = "has no list of its tools: turn off features of it with extraArgs or CODEX_CONFIG";
const approvesServer = '--config=mcp_servers.{server}.default_tools_approval_mode="approve"';
const waits = { required: true, startup_timeout_sec: 600 };
/** In the trial's home. */
const systemFile = ".codex/system-prompt.md";

export const codex: Preset = {
  title: "Codex",
  acp: {
    readNotice,
    command: "codex-acp",
    args: [],
    usesClientFile: true,
    // In its default mode a model of its own decides on permissions.
    env: { NO_BROWSER: "1", INITIAL_AGENT_MODE: "workspace-write" },
    package: "@agentclientprotocol/codex-acp",
    model: { by: "session" },
    options: {
      maxTurns: () => limitsOtherwise,
      allowedTools: () => toolsOtherwise,
      effort: asksInSession.effort,
      systemPrompt: (prompt) =>
        prompt.mode === "append"
          ? asksInSession.systemPrompt(prompt)
          : {
              files: { [systemFile]: prompt.text },
              env: { CODEX_CONFIG: JSON.stringify({ model_instructions_file: `~/${systemFile}` }) },
            },
    },
    login: { method: "api-key", variables: ["CODEX_API_KEY", "OPENAI_API_KEY"] },
  },
  headless: {
    command: "codex",
    args: ["exec", ...codexArgs, "--", "{prompt}"],
    nextArgs: ["exec", "resume", ...codexArgs, "--", "{session}", "{prompt}"],
    modelArgs: common.modelFlag,
    options: {
      maxTurns: () => limitsOtherwise,
      allowedTools: () => toolsOtherwise,
      effort: (effort) => ({ args: ["--config", `model_reasoning_effort="${effort}"`] }),
      systemPrompt: ({ mode, text }) =>
        mode === "append"
          ? { args: ["--config", `developer_instructions=${JSON.stringify(text)}`] }
          : {
              files: { [systemFile]: text },
              args: ["--config", `model_instructions_file="~/${systemFile}"`],
            },
      // Nobody is asked, so that what needs an approval is denied.
      permissions: (policy) =>
        policy === "allow"
          ? { args: ["--dangerously-bypass-approvals-and-sandbox"] }
          : {
              args: ["--sandbox", "read-only"],
              ...(policy === "deny" ? {} : { serverArg: approvesServer }),
            },
    },
    env: {},
    package: "@openai/codex",
    stdin: false,
    usesClientFile: true,
  },
  inheritEnv: ["CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_PATH"],
  home: {
    variables: ["CODEX_HOME", "CODEX_CONFIG"],
    login: [
      {
        folder: ".codex",
        file: "auth.json",
        variable: "CODEX_HOME",
        carry: ({ tokens, ...rest }) =>
          tokens === undefined || tokens === null
            ? rest
            : { ...rest, tokens: { ...asObject(tokens), refresh_token: "" } },
      },
    ],
    files: { ".codex/config.toml": "[features]\napps = false\nremote_plugin = false\n" },
    above: ["AGENTS.md", "AGENTS.override.md", ".codex", ".agents"],
  },
  skills: { mountPath: ".agents/skills" },
  toolNames: [
    common.doubleUnderscore,
    { before: "mcp__", between: "." },
    { before: "mcp__", between: "/" },
    { before: "mcp.", between: "." },
    { before: "", between: "." },
    { before: "", between: "/" },
  ],
  clientFile: {
    file: ".codex/config.toml",
    format: "toml",
    key: "mcp_servers",
    // Otherwise it asks its model before it has the tools, and takes servers that do not answer in time for none.
    http: (url) => ({ url, ...waits }),
    bridge: (bridge) => ({ ...common.program(bridge), ...waits }),
  },
  createReader,
};

/** Types of items that are uses of built-in tools. */
const ownTools = new Set(["command_execution", "file_change", "web_search", "collab_tool_call"]);

/** Creates the reader of what `codex exec --json` prints. */
function createReader(): OutputReader {
  let before: common.Tokens | undefined;
  return {
    lastEvent: "turn.completed",
    finish: () => [],
    read(line) {
      switch (line["type"]) {
        case "thread.started":
          return common.sessionEvent(line["thread_id"]);
        case "item.started":
        case "item.completed":
          return readItem(asObject(line["item"]), line["type"] === "item.started");
        case "turn.completed": {
          const total = common.tokensOf(asObject(line["usage"]), {
            input: "input_tokens",
            output: "output_tokens",
            cacheRead: "cached_input_tokens",
            cacheWrite: "cache_write_input_tokens",
          });
          const usage = common.usageOf(common.tokensSince(before, total));
          before = total;
          return [{ kind: "usage", usage }, { kind: "complete" }];
        }
        case "turn.failed":
          return [
            {
              kind: "failed",
              message: common.textOf(asObject(line["error"])["message"]) ?? "the turn failed",
            },
          ];
        default:
          return [];
      }
    },
  };
}

function readItem(item: WireObject, started: boolean): readonly OutputEvent[] {
  const type = common.textOf(item["type"]) ?? "";
  const callId = common.textOf(item["id"]) ?? "";
  if (type === "agent_message") return started ? [] : common.messageEvent(item["text"]);
  const ended = item["status"] === "failed" || item["status"] === "declined" ? "failed" : "completed";
  const status = started ? "started" : ended;
  if (type === "mcp_tool_call") return [{ kind: "tool", callId, status, ...serverTool(item) }];
  return ownTools.has(type) ? [{ kind: "tool", callId, status, name: type, ...ownTool(item, started) }] : [];
}

function serverTool(item: WireObject): Pick<ToolUse, "name" | "args" | "result" | "origin"> {
  const server = common.textOf(item["server"]) ?? "";
  const tool = common.textOf(item["tool"]) ?? "";
  return {
    name: `${server}.${tool}`,
    origin: { server, tool },
    ...common.optional("args", item["arguments"]),
    ...common.optional("result", item["result"] ?? item["error"]),
  };
}

/** For built-in tools, arguments and result are in one object; the result is there at the end. */
function ownTool(item: WireObject, started: boolean): Pick<ToolUse, "args" | "result"> {
  const { id: _, type: __, status: ___, aggregated_output: output, exit_code: exitCode, ...args } = item;
  const result = started || output === undefined ? undefined : { output, exitCode };
  return { ...common.optional("args", args), ...common.optional("result", result) };
}

/** Its own notices have no `messageId`, messages of its model have one; the last notice after an error is the reason. */
function readNotice(update: WireObject): AgentNotice {
  const { error, threadStatus } = asObject(asObject(update["_meta"])["codex"]);
  if (threadStatus !== undefined) {
    const failed = asObject(threadStatus)["type"] === "systemError";
    return { failure: failed ? "its model could not be reached" : null };
  }
  if (error !== undefined) {
    const { message, additionalDetails, willRetry } = asObject(error);
    const note = [message, additionalDetails].flatMap((text) => common.textOf(text) ?? []).join(": ");
    return { note, ...(willRetry === false ? { failure: note } : {}) };
  }
  return update["messageId"] === undefined ? common.noteOf(common.chunkText(update)) : {};
}
