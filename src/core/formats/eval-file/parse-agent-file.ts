import * as z from "zod";
import type { Diagnostic } from "../../errors/error.ts";
import type { AgentSkills } from "../agent-model.ts";
import { closedObject } from "../config/config-fields.ts";
import { LenientReader } from "../lenient-reader.ts";
import { memberOf } from "../member-of.ts";
import type { Locate } from "../problem.ts";
import { withoutUndefined } from "../without-undefined.ts";
import { modelId } from "./model-id.ts";
import type { ShellCommands } from "./shell-agent.ts";

/** A `kind: Agent` file. */
export interface AgentFile {
  readonly name?: string;
  readonly agent: FileAgent;
  /** What it is, in words, for the case that it cannot be run. */
  readonly description: string;
  /** Where the program looks for skills; absent: the file does not say. */
  readonly skills?: Omit<AgentSkills, "folders">;
}

/** What an agent's file describes. */
export type FileAgent =
  | {
      readonly kind: "llm-agent";
      /** `PROVIDER/MODEL`. */
      readonly model: string;
      readonly baseURL?: string;
      /** Name of a variable that may hold the base URL, when `baseURL` is absent. */
      readonly baseURLVariable?: string;
      /** Name of a variable that may hold the key; else the usual one of the provider does. */
      readonly apiKeyVariable?: string;
    }
  | { readonly kind: "claude-code" }
  | { readonly kind: "acp"; readonly command: string; readonly args: readonly string[] }
  | { readonly kind: "shell"; readonly commands: ShellCommands };

export type ParsedAgentFile =
  | { readonly ok: true; readonly file: AgentFile; readonly notes: readonly string[] }
  | { readonly ok: false; readonly diagnostics: readonly Diagnostic[] };

const text = z.string().optional();

const agentSchema = closedObject({
  apiVersion: text,
  kind: text,
  metadata: closedObject({ name: text, version: text }).optional(),
  builtin: closedObject({
    type: z.enum(["claude-code", "llm-agent", "openai-agent", "openai-acp"]),
    model: text,
    baseUrl: text,
    apiKey: text,
  }).optional(),
  acp: closedObject({ cmd: z.string(), args: z.array(z.string()).optional() }).optional(),
  commands: closedObject({
    argTemplateMcpServer: text,
    argTemplateAllowedTools: text,
    allowedToolsJoinSeparator: text,
    runPrompt: text,
    useVirtualHome: z.boolean().optional(),
    getVersion: text,
  }).optional(),
  skills: closedObject({ mountPath: text, toolName: text }).optional(),
});

type Document = z.output<typeof agentSchema>;

/**
 * Reads a `kind: Agent` file, leniently. As in the tool that the format comes from, `builtin` wins over `acp`, and `acp` over
 * `commands`; unlike there, what is left out because of that is told.
 */
export function parseAgentFile(document: unknown, { locate }: { readonly locate: Locate }): ParsedAgentFile {
  const reader = new LenientReader(locate);
  const [kindKey, kind] = memberOf(document, "kind");
  if (kind !== "Agent") reader.refuse('kind must be "Agent"', [kindKey]);
  const parsed = reader.read(agentSchema, document);
  const agent = parsed === undefined ? undefined : readAgent(parsed, reader);
  const skills = parsed === undefined ? undefined : readSkills(parsed, reader);
  if (agent === undefined || reader.failed) return { ok: false, diagnostics: reader.diagnostics() };
  const name = parsed?.metadata?.name?.trim() || undefined;
  return {
    ok: true,
    file: withoutUndefined({ name, agent, description: describe(agent), skills }),
    notes: reader.notes,
  };
}

function readAgent(document: Document, reader: LenientReader): FileAgent | undefined {
  const { builtin, acp, commands } = document;
  if (builtin !== undefined) {
    if (acp !== undefined) reader.note("acp has no effect: builtin wins", ["acp"]);
    return readBuiltin(builtin, reader);
  }
  if (acp !== undefined) return { kind: "acp", command: acp.cmd, args: acp.args ?? [] };
  if (commands?.runPrompt) return { kind: "shell", commands: readCommands(commands, reader) };
  reader.problem({
    code: "config/missing-key",
    message: "the agent needs builtin, acp, or commands with runPrompt",
    path: [],
    at: "value",
  });
  return undefined;
}

function readSkills({ builtin, skills }: Document, reader: LenientReader): AgentFile["skills"] {
  if (skills === undefined) return undefined;
  if (builtin !== undefined) {
    reader.note("skills has no effect: builtin wins", ["skills"]);
    return undefined;
  }
  const { mountPath = "", toolName = "" } = skills;
  if (mountPath === "" || toolName === "") {
    const key = mountPath === "" ? "mountPath" : "toolName";
    const message = `skills needs ${key}`;
    reader.problem({ code: "config/missing-key", message, path: ["skills"], at: "value" });
    return undefined;
  }
  const names = mountPath.split(/[/\\]/).filter((name) => name !== "" && name !== ".");
  if (/^(?:[/\\]|[A-Za-z]:)/.test(mountPath) || names.includes("..") || names.length === 0)
    reader.refuse("mountPath must be a folder inside the workspace", ["skills", "mountPath"]);
  return { mountPath: names.join("/"), tool: toolName };
}

function readCommands(commands: NonNullable<Document["commands"]>, reader: LenientReader): ShellCommands {
  for (const key of ["useVirtualHome", "getVersion"] as const) {
    const isSet = commands[key] !== undefined && commands[key] !== false && commands[key] !== "";
    if (isSet) reader.note(`${key} has no effect`, ["commands", key]);
  }
  const { runPrompt = "" } = commands;
  if (!/\{\{[^}]*\.Prompt\b/.test(runPrompt)) {
    reader.note("the agent never hears the user: runPrompt has no {{ .Prompt }}", ["commands", "runPrompt"]);
  }
  const { argTemplateMcpServer = "" } = commands;
  if (/\{\{[^}]*\.URL\b/.test(argTemplateMcpServer)) {
    const what = "{{ .URL }} shows a secret address to every user of this machine (ps): use {{ .File }}";
    reader.note(what, ["commands", "argTemplateMcpServer"]);
  }
  return {
    runPrompt,
    argTemplateMcpServer,
    argTemplateAllowedTools: commands.argTemplateAllowedTools ?? "",
    allowedToolsJoinSeparator: commands.allowedToolsJoinSeparator ?? " ",
  };
}

function readBuiltin(
  builtin: NonNullable<Document["builtin"]>,
  reader: LenientReader,
): FileAgent | undefined {
  const { type, model = "", baseUrl, apiKey } = builtin;
  if (type === "claude-code") return { kind: "claude-code" };
  const isOld = type !== "llm-agent";
  if (isOld) reader.note(`${type} is the old name of llm-agent`, ["builtin", "type"]);
  const id = modelId(model, isOld ? "openai" : undefined);
  if (id === undefined) {
    const example = "anthropic:claude-sonnet-4-5";
    reader.refuse(`model must be PROVIDER:MODEL, such as ${example}`, ["builtin", "model"]);
    return undefined;
  }
  return withoutUndefined({
    kind: "llm-agent" as const,
    model: id,
    baseURL: baseUrl || undefined,
    baseURLVariable: isOld && !baseUrl ? "MODEL_BASE_URL" : undefined,
    apiKeyVariable: apiKey || (isOld ? "MODEL_KEY" : undefined),
  });
}

function describe(agent: FileAgent): string {
  switch (agent.kind) {
    case "llm-agent":
      return `the built-in model loop with ${agent.model}`;
    case "claude-code":
      return "Claude Code, over the Agent Client Protocol";
    case "acp":
      return `a program that speaks the Agent Client Protocol, ${JSON.stringify(agent.command)}`;
    case "shell":
      return "a program that is started with a shell command";
  }
}
