import { asObject } from "../../base/json.ts";
import type { AgentNotice, OutputEvent, OutputReader, Preset, ToolUse, WireObject } from "./preset.ts";
import * as common from "./preset.ts";
import type { OptionWays } from "./options.ts";

const copilotArgs = ["--no-auto-update", "--disable-builtin-mcps"];
const copilotTurn = [...copilotArgs, "--output-format", "json", "--additional-mcp-config", "@{mcpConfig}"];

/** Of its config file, in the spellings of newer and older versions. */
const loginMembers = [
  "authTokens",
  "copilotTokens",
  "copilot_tokens",
  "lastLoggedInUser",
  "last_logged_in_user",
  "loggedInUsers",
  "logged_in_users",
];

const options = {
  maxTurns: () => "has no limit of its turns: set limits.maxToolCalls or limits.maxTokens",
  allowedTools: (tools) => ({ args: [`--available-tools=${[...tools, "mcp:*"].join(",")}`] }),
  effort: (effort) => ({ args: ["--reasoning-effort", effort] }),
  systemPrompt: ({ mode, text }) =>
    mode === "append"
      ? { files: { ".copilot/copilot-instructions.md": text } }
      : "cannot replace its system prompt: give the text alone, which is added to it",
} satisfies Partial<OptionWays>;

export const copilot: Preset = {
  title: "Copilot CLI",
  acp: {
    readNotice,
    command: "copilot",
    args: ["--acp", ...copilotArgs],
    env: {},
    package: "@github/copilot",
    model: { by: "args", args: common.modelFlag },
    options,
    hides: ["instructions"],
    httpOnly: true,
    usage: "session",
  },
  headless: {
    command: "copilot",
    args: [...copilotTurn, "--prompt={prompt}"],
    nextArgs: [...copilotTurn, "--resume={session}", "--prompt={prompt}"],
    modelArgs: common.modelFlag,
    options: {
      ...options,
      // What it would ask for is denied, as nobody could answer.
      permissions: (policy) =>
        policy === "allow"
          ? { args: ["--allow-all-tools"] }
          : policy === "deny"
            ? {}
            : { serverArg: "--allow-tool={server}" },
    },
    env: {},
    package: "@github/copilot",
    hides: ["instructions"],
    stdin: false,
    usesClientFile: false,
  },
  // The COPILOT_PROVIDER variables are for a provider of the user; there is no default address.
  inheritEnv: [
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "COPILOT_MODEL",
    "COPILOT_OFFLINE",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_PROVIDER_TYPE",
    "COPILOT_PROVIDER_WIRE_API",
  ],
  home: {
    variables: ["COPILOT_HOME", "COPILOT_CUSTOM_INSTRUCTIONS_DIRS", "COPILOT_SKILLS_DIRS"],
    login: [
      {
        folder: ".copilot",
        file: "config.json",
        variable: "COPILOT_HOME",
        carry: (content) => common.membersOf(content, loginMembers),
      },
    ],
    // Without it, each trial would unpack the program, about 235 MB.
    caches: { COPILOT_PKG_CACHE_HOME: ".cache/copilot" },
    above: ["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github", ".agents", ".claude", ".mcp.json"],
  },
  skills: { mountPath: ".github/skills", tool: "skill" },
  toolNames: [
    { before: "", between: "-" },
    { before: "", between: "/" },
  ],
  // Version 1.0.102 reads this one, else `.github/mcp.json`, in a trusted folder, but not `.copilot/mcp.json`.
  clientFile: {
    file: ".mcp.json",
    format: "json",
    key: "mcpServers",
    http: (url) => ({ ...common.typedHttp(url), tools: ["*"] }),
    bridge: (bridge) => ({ ...common.typedProgram(bridge), tools: ["*"] }),
  },
  createReader,
};

type Named = Pick<ToolUse, "name" | "origin" | "parentCallId">;

/** Creates the reader of what `copilot --output-format json` prints. */
function createReader(): OutputReader {
  const names = new Map<string, Named>();
  let trouble: string | undefined;
  return {
    lastEvent: "result",
    finish: () => [],
    read(line) {
      const data = asObject(line["data"]);
      switch (line["type"]) {
        case "assistant.message":
          // Messages of subagents are not messages of the agent.
          return data["parentToolCallId"] === undefined ? common.messageEvent(data["content"]) : [];
        case "assistant.usage":
          return [{ kind: "usage", usage: common.usageOf(common.tokensOf(data, tokenNames), 1) }];
        case "model.call_final_result": {
          const model = common.textOf(data["model"]);
          return model === undefined || data["result"] !== "success" ? [] : [{ kind: "ran", model }];
        }
        case "tool.execution_start": {
          const callId = common.textOf(data["toolCallId"]) ?? "";
          const named = nameOf(data);
          names.set(callId, named);
          const args = common.optional("args", data["arguments"]);
          return [{ kind: "tool", callId, ...named, status: "started", ...args }];
        }
        case "tool.execution_complete":
          return [readResult(data, names)];
        case "session.error":
          trouble = common.textOf(data["message"]);
          return [];
        case "result":
          return [
            ...common.sessionEvent(line["sessionId"]),
            ...(line["exitCode"] === 0 ? [] : [{ kind: "failed", message: trouble ?? "it failed" } as const]),
            { kind: "complete" },
          ];
        default:
          return [];
      }
    },
  };
}

function nameOf(data: WireObject): Named {
  const server = common.textOf(data["mcpServerName"]);
  const tool = common.textOf(data["mcpToolName"]);
  const parentCallId = common.textOf(data["parentToolCallId"]);
  return {
    name: common.textOf(data["toolName"]) ?? "",
    ...(server === undefined || tool === undefined ? {} : { origin: { server, tool } }),
    ...(parentCallId === undefined ? {} : { parentCallId }),
  };
}

function readResult(data: WireObject, names: ReadonlyMap<string, Named>): OutputEvent {
  const callId = common.textOf(data["toolCallId"]) ?? "";
  const result = asObject(data["result"]);
  return {
    kind: "tool",
    callId,
    ...(names.get(callId) ?? nameOf(data)),
    status: data["success"] === true ? "completed" : "failed",
    ...common.optional(
      "result",
      result["contents"] ?? result["content"] ?? asObject(data["error"])["message"],
    ),
  };
}

const tokenNames = {
  input: "inputTokens",
  output: "outputTokens",
  cacheRead: "cacheReadTokens",
  cacheWrite: "cacheWriteTokens",
};

/** Its own notices begin with `Info:` or `Error:`, and come in one piece. */
function readNotice(update: WireObject): AgentNotice {
  const said = common.chunkText(update);
  if (said === undefined) return {};
  if (/^Info: .*Retrying\.\.\.$/.test(said)) return { note: said };
  return { failure: said.startsWith("Error: ") ? said.slice("Error: ".length) : null };
}
