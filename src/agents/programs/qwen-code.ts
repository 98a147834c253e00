import { asList, asObject, type JsonObject, withoutUndefined } from "../../base/json.ts";
import type { OutputReader, Preset } from "./preset.ts";
import * as common from "./preset.ts";
import type { OptionWays } from "./options.ts";

// Otherwise its model has to look for the tools of servers before it sees them.
const noSearch = ["--exclude-tools=tool_search", "--exclude-tools=tool_call"];
const headlessArgs = ["--output-format", "stream-json", "--mcp-config", "{mcpConfig}", ...noSearch];

/** Those of version 0.24.4. */
const ownTools = [
  "agent",
  "artifact",
  "ask_user_question",
  "create_sub_session",
  "cron_create",
  "cron_delete",
  "cron_list",
  "edit",
  "enter_plan_mode",
  "enter_worktree",
  "exec",
  "exit_plan_mode",
  "exit_worktree",
  "get_goal",
  "glob",
  "grep_search",
  "image_gen",
  "list_agents",
  "list_directory",
  "loop_wakeup",
  "lsp",
  "monitor",
  "notebook_edit",
  "read_file",
  "read_mcp_resource",
  "record_artifact",
  "record_source",
  "report_findings",
  "run_shell_command",
  "save_memory",
  "send_message",
  "skill",
  "task_create",
  "task_list",
  "task_stop",
  "task_update",
  "todo_write",
  "update_goal",
  "web_fetch",
  "web_search",
  "workflow",
  "write_file",
  "zoom_image",
];

const options = {
  // `--max-session-turns` has no effect in `--acp`, and ends the command as failures do.
  maxTurns: () => "does not tell that its turns were limited: set limits.maxTurns, with modelProxy",
  allowedTools: (tools) => ({
    args: ownTools.filter((name) => !tools.includes(name)).map((name) => `--exclude-tools=${name}`),
  }),
  effort: () => "takes no effort: write it into the modelProviders of .qwen/settings.json of the workspace",
  systemPrompt: ({ mode, text }) => ({
    args: [`--${mode === "append" ? "append-" : ""}system-prompt=${text}`],
  }),
} satisfies Partial<OptionWays>;

const env = {
  // Otherwise the first turn may begin before the servers are connected.
  QWEN_CODE_LEGACY_MCP_BLOCKING: "1",
  QWEN_CODE_NO_RELAUNCH: "true",
  QWEN_USAGE_STATISTICS_ENABLED: "false",
};

/** The most that it takes. */
const waits = { discoveryTimeoutMs: 300_000 };

export const qwenCode: Preset = {
  title: "Qwen Code",
  acp: {
    command: "qwen",
    args: ["--acp", "--approval-mode=default", ...noSearch],
    env,
    package: "@qwen-code/qwen-code",
    hides: ["instructions"],
    serversFlag: "--mcp-config",
    model: { by: "args", args: common.modelFlag },
    options,
    login: { method: "openai", variables: ["OPENAI_API_KEY"] },
  },
  headless: {
    command: "qwen",
    args: [...headlessArgs, "--prompt={prompt}"],
    nextArgs: [...headlessArgs, "--resume", "{session}", "--prompt={prompt}"],
    modelArgs: common.modelFlag,
    options: {
      ...options,
      // What it would ask for is denied, as nobody could answer.
      permissions: (policy) =>
        policy === "allow"
          ? { args: ["--yolo"] }
          : {
              args: ["--approval-mode=default"],
              ...(policy === "deny" ? {} : { serverArg: "--allowed-tools=mcp__{server}" }),
            },
    },
    env,
    package: "@qwen-code/qwen-code",
    stdin: false,
    usesClientFile: false,
  },
  modelApi: { variable: "OPENAI_BASE_URL", target: "https://api.openai.com/v1" },
  inheritEnv: ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"],
  home: {
    variables: ["QWEN_HOME", "QWEN_RUNTIME_DIR", "QWEN_CODE_MCP_APPROVALS_PATH", "QWEN_SYSTEM_MD"],
    login: [
      {
        folder: ".qwen",
        file: "settings.json",
        variable: "QWEN_HOME",
        carry: ({ security, ...others }) => {
          const { auth } = asObject(security) as JsonObject;
          const providers = common.membersOf(others, ["modelProviders", "providerProtocol", "env"]);
          return auth === undefined ? providers : { security: { auth }, ...providers };
        },
      },
    ],
    files: {
      ".qwen/settings.json": {
        // Otherwise it asks its model after each turn what to remember, and what the user may say next.
        memory: { enableManagedAutoMemory: false, enableManagedAutoDream: false },
        ui: { enableFollowupSuggestions: false },
        // Otherwise other sessions on this machine can write to it, over a socket outside of its home.
        agents: { crossSessionMessaging: false },
      },
    },
    withKey: {
      variable: "OPENAI_API_KEY",
      files: { ".qwen/settings.json": { security: { auth: { selectedType: "openai" } } } },
    },
    above: ["QWEN.md", "AGENTS.md", ".qwen", ".mcp.json", ".env"],
  },
  skills: { mountPath: ".qwen/skills", tool: "skill" },
  toolNames: [common.doubleUnderscore, { before: "", between: " (", after: " MCP Server)", toolFirst: true }],
  clientFile: {
    file: ".qwen/settings.json",
    format: "json",
    key: "mcpServers",
    // Otherwise it goes on without a server that does not answer in 5 seconds, or 30.
    http: (url) => ({ httpUrl: url, ...waits }),
    bridge: (bridge) => ({ ...common.program(bridge), ...waits }),
  },
  createReader,
};

/** Creates the reader of what `qwen --output-format stream-json` prints. */
function createReader(): OutputReader {
  const names = new Map<string, string>();
  let before: common.Tokens | undefined;
  return {
    lastEvent: "result",
    finish: () => [],
    read(line) {
      switch (line["type"]) {
        case "system": {
          if (line["subtype"] !== "init") return [];
          const version = common.textOf(line["qwen_code_version"]);
          const model = common.textOf(line["model"]);
          const ran = withoutUndefined({
            program: version === undefined ? undefined : `qwen-code ${version}`,
            model,
          });
          return [...common.sessionEvent(line["session_id"]), { kind: "ran", ...ran }];
        }
        case "assistant":
        case "user": {
          const parent = common.textOf(line["parent_tool_use_id"]);
          const blocks = asList(asObject(line["message"])["content"]);
          return blocks.flatMap((block) => common.readBlock(asObject(block), parent, names));
        }
        case "result": {
          const total = common.tokensOf(asObject(line["usage"]), {
            input: "input_tokens",
            output: "output_tokens",
            cacheRead: "cache_read_input_tokens",
          });
          const usage = common.usageOf(common.tokensSince(before, total));
          before = total;
          const { message } = asObject(line["error"]);
          return [
            { kind: "usage", usage },
            ...(line["is_error"] === true
              ? [{ kind: "failed", message: common.textOf(message) ?? "it failed" } as const]
              : []),
            { kind: "complete" },
          ];
        }
        default:
          return [];
      }
    },
  };
}
