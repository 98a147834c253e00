import { loadConfig, type LoadedConfig } from "../config/load-config.ts";
import { McpvalsError } from "../core/errors/error.ts";
import { createRedactor } from "../core/trace/redact.ts";
import { writeOut } from "./terminal.ts";
import { writeNotes } from "./write-notes.ts";
import { workingFolder } from "./working-folder.ts";

export interface ValidateOptions {
  readonly env: Readonly<Record<string, string>>;
  readonly json: boolean;
}

/** Carries out `mcpvals validate` and gives the exit code: 0 for a valid config, 2 for one that is not. */
export async function executeValidate(
  source: string | undefined,
  { env, json }: ValidateOptions,
): Promise<number> {
  try {
    const loaded = await loadConfig({ source, cwd: workingFolder(), env, agents: [] });
    const report = { valid: true, ...counts(loaded), notes: loaded.notes };
    const text = json ? JSON.stringify(report, undefined, 2) : sentence(loaded);
    writeOut(createRedactor(loaded.secrets)(text));
    if (!json) writeNotes(loaded);
    return 0;
  } catch (error) {
    if (!json || !(error instanceof McpvalsError) || error.kind !== "usage") throw error;
    const { code, message, details } = error;
    const diagnostics = details.diagnostics ?? [{ code, message, ...details }];
    writeOut(JSON.stringify({ valid: false, diagnostics }, undefined, 2));
    return 2;
  }
}

function counts({ eval: spec, file }: LoadedConfig): Record<string, unknown> {
  const workflows = spec.tasks.filter((task) => task.form === "workflow").length;
  return {
    file,
    name: spec.name,
    servers: Object.keys(spec.servers),
    agents: spec.agents.map((agent) => agent.name),
    workflows,
    toolTests: spec.tasks.length - workflows,
  };
}

function sentence(loaded: LoadedConfig): string {
  const { workflows, toolTests, servers } = counts(loaded);
  return `${loaded.file} is valid: ${String(workflows)} workflows, ${String(toolTests)} tool tests, servers ${(servers as string[]).join(", ")}`;
}
