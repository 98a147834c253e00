import { asObject, type JsonObject, mapValues } from "../../base/json.ts";
import type { OutputEvent, OutputReader, Preset, WireObject } from "./preset.ts";
import * as common from "./preset.ts";
import { type Addition, asksInSession, type OptionWays } from "./options.ts";
import type { TurnEnd } from "../../model/event.ts";

/** Its tools, whose names begin the rules of permissions; those of servers have other names. */
const ownTools = [
  "bash",
  "codesearch",
  "edit",
  "glob",
  "grep",
  "list",
  "list_mcp_resource_templates",
  "list_mcp_resources",
  "lsp",
  "question",
  "read",
  "read_mcp_resource",
  "skill",
  "task",
  "todoread",
  "todowrite",
  "webfetch",
  "websearch",
];

function build(settings: JsonObject): Addition {
  return { files: { ".config/opencode/opencode.json": { agent: { build: settings } } } };
}

const options = {
  maxTurns: () =>
    "only asks its model to stop after a number of turns: set limits.maxToolCalls or limits.maxTokens",
  allowedTools: (tools) =>
    build({
      permission: Object.fromEntries(
        ownTools.filter((name) => !tools.includes(name)).map((name) => [name, "deny"]),
      ),
    }),
  effort: (variant) => build({ variant }),
  systemPrompt: ({ mode, text }) =>
    mode === "append" ? { files: { ".config/opencode/AGENTS.md": text } } : build({ prompt: text }),
} satisfies Partial<OptionWays>;

export const opencode: Preset = {
  title: "opencode",
  acp: {
    command: "opencode",
    args: ["acp"],
    // By default it asks for no permission, so that no policy would apply.
    env: { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_PERMISSION: '{"*":"ask"}' },
    package: "opencode-ai",
    model: { by: "session" },
    options: { ...options, effort: asksInSession.effort },
    // Those of the last request.
    usage: "part",
  },
  headless: {
    command: "opencode",
    args: ["run", "--format", "json", "--", "{prompt}"],
    nextArgs: ["run", "--format", "json", "--session", "{session}", "--", "{prompt}"],
    modelArgs: common.modelFlag,
    options: {
      ...options,
      effort: (variant) => ({ args: ["--variant", variant] }),
      // Without --auto, what it would ask for is denied.
      permissions: (policy) =>
        policy === "allow"
          ? { args: ["--auto"] }
          : {
              env: {
                OPENCODE_PERMISSION: JSON.stringify(
                  policy === "deny"
                    ? { "*": "ask" }
                    : { "*": "allow", ...Object.fromEntries(ownTools.map((name) => [name, "ask"])) },
                ),
              },
            },
    },
    env: { OPENCODE_DISABLE_AUTOUPDATE: "1" },
    package: "opencode-ai",
    stdin: false,
    usesClientFile: true,
    tellsRequests: true,
  },
  inheritEnv: ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
  home: {
    variables: ["OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR"],
    login: [
      {
        folder: ".local/share",
        file: "opencode/auth.json",
        variable: "XDG_DATA_HOME",
        // What never expires is not exchanged for another one.
        carry: (content) =>
          mapValues(content, (entry) => {
            const { type, expires } = asObject(entry);
            return type === "oauth" && expires !== 0 ? { ...asObject(entry), refresh: "" } : entry;
          }),
      },
    ],
    // Otherwise it asks its model for a title of each session.
    files: { ".config/opencode/opencode.json": { agent: { title: { disable: true } } } },
    above: [
      "AGENTS.md",
      "CLAUDE.md",
      "CONTEXT.md",
      "opencode.json",
      "opencode.jsonc",
      ".opencode",
      ".claude",
      ".agents",
    ],
  },
  skills: { mountPath: ".opencode/skills", tool: "skill" },
  toolNames: [{ before: "", between: "_" }],
  clientFile: {
    file: "opencode.json",
    format: "json",
    key: "mcp",
    http: (url) => ({ type: "remote", url, enabled: true }),
    bridge: ({ command, args, env }) => ({
      type: "local",
      command: [command, ...args],
      environment: env,
      enabled: true,
    }),
  },
  createReader,
};

/** Creates the reader of what `opencode run --format json` prints. Uses of tools are printed at their end. */
function createReader(): OutputReader {
  let session: string | undefined;
  return {
    lastEvent: "step_finish with the reason stop",
    finish: () => [],
    read(line) {
      const earlier = session;
      session = common.textOf(line["sessionID"]) ?? session;
      return [...(session === earlier ? [] : common.sessionEvent(session)), ...readPart(line)];
    },
  };
}

function readPart(line: WireObject): readonly OutputEvent[] {
  const part = asObject(line["part"]);
  switch (line["type"]) {
    case "text":
      return common.messageEvent(part["text"]);
    case "tool_use": {
      const state = asObject(part["state"]);
      return [
        {
          kind: "tool",
          callId: common.textOf(part["callID"]) ?? "",
          name: common.textOf(part["tool"]) ?? "",
          status: state["status"] === "completed" ? "completed" : "failed",
          ...common.optional("args", state["input"]),
          ...common.optional("result", state["output"] ?? state["error"]),
        },
      ];
    }
    case "step_finish":
      return readStep(part);
    case "error": {
      const error = asObject(line["error"]);
      const message =
        common.textOf(asObject(error["data"])["message"]) ?? common.textOf(error["name"]) ?? "it failed";
      return [{ kind: "failed", message }];
    }
    default:
      return [];
  }
}

/** The last one counts: a program may continue after a response that was cut off. */
const ends: Readonly<Record<string, TurnEnd>> = {
  length: "max-tokens",
  "content-filter": "refused",
  stop: "done",
  "tool-calls": "done",
};

/** `input` is without the tokens of the cache. */
function readStep(part: WireObject): readonly OutputEvent[] {
  const tokens = asObject(part["tokens"]);
  const cache = asObject(tokens["cache"]);
  const cacheRead = common.countOf(cache["read"]);
  const cacheWrite = common.countOf(cache["write"]);
  const input = common.countOf(tokens["input"]) + cacheRead + cacheWrite;
  const output = common.countOf(tokens["output"]) + common.countOf(tokens["reasoning"]);
  const reason = ends[common.textOf(part["reason"]) ?? ""];
  return [
    { kind: "usage", usage: common.usageOf({ input, output, cacheRead, cacheWrite }, 1, part["cost"]) },
    ...(reason === undefined ? [] : [{ kind: "end", reason } as const]),
    ...(reason === undefined || part["reason"] === "tool-calls" ? [] : [{ kind: "complete" } as const]),
  ];
}
