import { loadConfig, type LoadedConfig } from "../config/load-config.ts";
import type { Eval, ServerSpec, Task } from "../core/formats/model.ts";
import { createRedactor } from "../core/trace/redact.ts";
import { writeOut } from "./terminal.ts";
import { workingFolder } from "./working-folder.ts";

export interface ListOptions {
  readonly env: Readonly<Record<string, string>>;
  readonly json: boolean;
}

/** Carries out `mcpvals list` and gives the exit code. */
export async function executeList(source: string | undefined, { env, json }: ListOptions): Promise<number> {
  const loaded = await loadConfig({ source, cwd: workingFolder(), env, agents: [] });
  const redact = createRedactor(loaded.secrets);
  writeOut(redact(json ? JSON.stringify(listing(loaded), undefined, 2) : render(loaded.eval)));
  return 0;
}

function listing({ eval: spec, file }: LoadedConfig): unknown {
  return {
    name: spec.name,
    file,
    agents: spec.agents.map((agent) => agent.name),
    servers: Object.keys(spec.servers),
    tasks: spec.tasks.map((task) => ({
      name: task.name,
      form: task.form,
      suite: task.suite,
      description: task.description,
      turns: task.turns.map((turn) => turn.user),
      expectTools: task.expectTools,
      servers: task.servers,
    })),
  };
}

function render(spec: Eval): string {
  const workflows = spec.tasks.filter((task) => task.form === "workflow");
  const suites = Map.groupBy(
    spec.tasks.filter((task) => task.form === "tool-test"),
    (task) => task.suite ?? "",
  );
  return [
    spec.name,
    ...section("Workflows", workflows.flatMap(workflowLines)),
    ...[...suites].flatMap(([suite, tests]) => section(`Tool tests: ${suite}`, tests.map(testLine))),
    ...section(
      "Agents",
      spec.agents.map((agent) =>
        agent.type === "model" ? `${agent.name}  ${agent.model}` : `${agent.name}  a written plan, no model`,
      ),
    ),
    ...section(
      "Servers",
      Object.entries(spec.servers).map(([name, server]) => `${name}  ${targetOf(server)}`),
    ),
  ].join("\n");
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ["", title, ...lines.map((line) => `  ${line}`)];
}

function workflowLines(task: Task): string[] {
  const turns = task.turns.length === 1 ? "1 turn" : `${task.turns.length} turns`;
  const tools = task.expectTools.length === 0 ? "" : `, expects ${task.expectTools.join(", ")}`;
  const description = task.description === undefined ? [] : [`  ${task.description}`];
  return [`${task.name}  (${turns}${tools})`, ...description];
}

function testLine(task: Task): string {
  const [step] = task.verify;
  const title = task.suite === undefined ? task.name : task.name.slice(task.suite.length + 1);
  const tool = step?.type === "mcp" && step.request.kind === "tool" ? step.request.tool : title;
  return tool === title ? title : `${title}  (${tool})`;
}

function targetOf(server: ServerSpec): string {
  return server.transport === "stdio" ? [server.command, ...server.args].join(" ") : server.url;
}
