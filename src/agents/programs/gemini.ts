import { asObject } from "../../base/json.ts";
import type { OutputEvent, OutputReader, Preset, WireObject } from "./preset.ts";
import * as common from "./preset.ts";
import type { OptionWays } from "./options.ts";

const geminiArgs = ["--skip-trust", "--output-format", "stream-json"];

const ownTools = [
  "activate_skill",
  "ask_user",
  "complete_task",
  "enter_plan_mode",
  "exit_plan_mode",
  "get_internal_docs",
  "glob",
  "google_web_search",
  "grep_search",
  "invoke_agent",
  "list_background_processes",
  "list_directory",
  "list_mcp_resources",
  "read_background_output",
  "read_file",
  "read_many_files",
  "read_mcp_resource",
  "replace",
  "run_shell_command",
  "save_memory",
  "tracker_add_dependency",
  "tracker_create_task",
  "tracker_get_task",
  "tracker_list_tasks",
  "tracker_update_task",
  "tracker_visualize",
  "update_topic",
  "web_fetch",
  "write_file",
  "write_todos",
];

/** It reads all of these from its home, in both forms. */
const options = {
  maxTurns: (maxSessionTurns) => ({ files: { ".gemini/settings.json": { model: { maxSessionTurns } } } }),
  // The setting with those that stay would leave out the tools of servers, or allow them without asking.
  allowedTools: (tools) => {
    const exclude = ownTools.filter((name) => !tools.includes(name));
    return { files: { ".gemini/settings.json": { tools: { exclude } } } };
  },
  effort: () =>
    "takes no effort: write a thinkingConfig for its model into .gemini/settings.json of the workspace",
  systemPrompt: ({ mode, text }) =>
    mode === "append"
      ? { files: { ".gemini/GEMINI.md": text } }
      : { files: { ".gemini/system.md": text }, paths: { GEMINI_SYSTEM_MD: ".gemini/system.md" } },
} satisfies Partial<OptionWays>;

const mcpPolicy = '[[rule]]\nmcpName = "*"\ntoolName = "*"\ndecision = "allow"\npriority = 100\n';

export const gemini: Preset = {
  title: "Gemini CLI",
  acp: {
    command: "gemini",
    args: ["--acp", "--skip-trust"],
    env: {},
    package: "@google/gemini-cli",
    hides: ["changed-description"],
    model: { by: "args", args: common.modelFlag },
    options,
    // Without those of requests in which it chooses a model.
    usage: "part",
    login: { method: "gemini-api-key", variables: ["GEMINI_API_KEY"] },
  },
  headless: {
    command: "gemini",
    args: [...geminiArgs, "--prompt={prompt}"],
    nextArgs: [...geminiArgs, "--resume", "{session}", "--prompt={prompt}"],
    modelArgs: common.modelFlag,
    options: {
      ...options,
      // What it would ask for is denied, as nobody could answer.
      permissions: (policy) =>
        policy === "allow"
          ? { args: ["--yolo"] }
          : policy === "deny"
            ? {}
            : { files: { ".gemini/policies/mcpvals.toml": mcpPolicy } },
    },
    // It reads settings of trusted folders only, and --skip-trust does not cover their servers.
    env: { GEMINI_CLI_TRUST_WORKSPACE: "true" },
    package: "@google/gemini-cli",
    hides: ["changed-description"],
    stdin: false,
    usesClientFile: true,
  },
  modelApi: {
    variable: "GOOGLE_GEMINI_BASE_URL",
    target: "https://generativelanguage.googleapis.com",
  },
  inheritEnv: ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"],
  home: {
    variables: ["GEMINI_CLI_HOME", "GEMINI_SYSTEM_MD"],
    login: [
      // Google's refresh tokens stay valid when they are used.
      { folder: "", file: ".gemini/oauth_creds.json", variable: "GEMINI_CLI_HOME" },
      { folder: "", file: ".gemini/google_accounts.json", variable: "GEMINI_CLI_HOME" },
      {
        folder: "",
        file: ".gemini/settings.json",
        variable: "GEMINI_CLI_HOME",
        carry: ({ security }) => {
          const { selectedType } = asObject(asObject(security)["auth"]);
          return typeof selectedType === "string" ? { security: { auth: { selectedType } } } : undefined;
        },
      },
    ],
    // Otherwise it takes no key where the address of its model is set, too, as by the proxy.
    withKey: {
      variable: "GEMINI_API_KEY",
      files: { ".gemini/settings.json": { security: { auth: { selectedType: "gemini-api-key" } } } },
    },
    above: ["GEMINI.md", ".gemini", ".env"],
  },
  skills: { mountPath: ".gemini/skills", tool: "activate_skill" },
  toolNames: [
    common.doubleUnderscore,
    { before: "mcp_", between: "_" },
    { before: "", between: " (", after: " MCP Server)", toolFirst: true },
    { before: "", between: "__" },
  ],
  clientFile: {
    file: ".gemini/settings.json",
    format: "json",
    key: "mcpServers",
    http: (url) => ({ httpUrl: url }),
    bridge: common.program,
  },
  createReader,
};

/** Creates the reader of what `gemini --output-format stream-json` prints. */
function createReader(): OutputReader {
  const names = new Map<string, string>();
  let said = "";
  const finish = (): readonly OutputEvent[] => {
    const events = common.messageEvent(said);
    said = "";
    return events;
  };
  return {
    lastEvent: "result",
    finish,
    read(line) {
      switch (line["type"]) {
        case "init":
          return common.sessionEvent(line["session_id"]);
        case "message": {
          if (line["role"] !== "assistant") return [];
          // Pieces of one message follow each other.
          const earlier = line["delta"] === true ? [] : finish();
          said += common.textOf(line["content"]) ?? "";
          return earlier;
        }
        case "tool_use": {
          const callId = common.textOf(line["tool_id"]) ?? "";
          const name = common.textOf(line["tool_name"]) ?? "";
          names.set(callId, name);
          const args = common.optional("args", line["parameters"]);
          return [...finish(), { kind: "tool", callId, name, status: "started", ...args }];
        }
        case "tool_result": {
          const callId = common.textOf(line["tool_id"]) ?? "";
          const status = line["status"] === "error" ? "failed" : "completed";
          const result = common.optional("result", line["output"] ?? asObject(line["error"])["message"]);
          return [...finish(), { kind: "tool", callId, name: names.get(callId) ?? "", status, ...result }];
        }
        case "result":
          return [...finish(), ...readEnd(line), { kind: "complete" }];
        default:
          return [];
      }
    },
  };
}

function readEnd(line: WireObject): readonly OutputEvent[] {
  const stats = asObject(line["stats"]);
  const usage = common.usageOf(
    common.tokensOf(stats, { input: "input_tokens", output: "output_tokens", cacheRead: "cached" }),
  );
  const models = Object.keys(asObject(stats["models"]));
  const ran = models.map((model) => ({ kind: "ran", model }) as const);
  const events: OutputEvent[] = line["stats"] === undefined ? [] : [...ran, { kind: "usage", usage }];
  if (line["status"] !== "error") return events;
  const { type, message } = asObject(line["error"]);
  return type === "FatalTurnLimitedError"
    ? [...events, { kind: "end", reason: "max-steps" }]
    : [...events, { kind: "failed", message: common.textOf(message) ?? "it failed" }];
}
