import { relative } from "node:path";
import type { LoadedConfig } from "../config/load-config.ts";
import { load } from "../config/load.ts";
import type { AgentSpec, Eval, Task } from "../core/formats/model.ts";
import { lifetimeOf } from "../core/plan/effective-servers.ts";
import { actingAgents } from "../core/plan/plan.ts";
import { visibleLines, visibleText } from "../core/text/visible-text.ts";
import { createRedactor } from "../core/trace/redact.ts";
import { prepare } from "../prepare.ts";
import type { ConfigQuestion } from "./config-command.ts";
import { targetOf } from "./server-target.ts";
import { writeJson, writeOut } from "./terminal.ts";
import { variantLine } from "./variant-line.ts";
import { workingFolder } from "./working-folder.ts";

/** Carries out `mcpvals list` and gives the exit code. */
export async function executeList({ load: options, filters, json }: ConfigQuestion): Promise<number> {
  const loaded = prepare(await load({ ...options, cwd: workingFolder(), lookOnly: true }), filters);
  const redact = createRedactor(loaded.secrets);
  if (json) writeJson(redact(listing(loaded)), 2);
  else writeOut(redact(render(loaded.eval)));
  return 0;
}

function listing({ eval: spec, file }: LoadedConfig): unknown {
  const agents = actingAgents(spec);
  return {
    name: spec.name,
    file,
    agents: agents.map((agent) => agent.name),
    agentTypes: Object.fromEntries(agents.map((agent) => [agent.name, agent.type])),
    servers: Object.keys(spec.servers),
    lifetimes: Object.fromEntries(
      Object.entries(spec.servers).map(([name, server]) => [name, lifetimeOf(server)]),
    ),
    variants: spec.variants?.map((variant) => variant.name),
    tasks: spec.tasks.map((task) => ({
      name: task.name,
      form: task.form,
      suite: task.suite,
      description: task.description,
      turns: task.turns.map((turn) => turn.user),
      expectTools: task.expectTools,
      servers: task.servers,
      ...portableListing(task, spec),
    })),
  };
}

function portableListing({ name, portable }: Task, { taskServers }: Eval): object {
  if (portable === undefined) return {};
  const { format, file, difficulty, tags, labels, requires, timeoutMs, runs } = portable;
  const ownServers = Object.keys(taskServers?.[name] ?? {});
  return { format, file, difficulty, tags, labels, requires, timeoutMs, runs, ownServers };
}

function render(spec: Eval): string {
  const workflows = spec.tasks.filter((task) => task.form === "workflow");
  const suites = Map.groupBy(
    spec.tasks.filter((task) => task.form === "tool-test"),
    (task) => task.suite ?? "",
  );
  const portable = spec.tasks.filter((task) => task.form === "task");
  return [
    spec.name,
    ...section("Tasks", portable.flatMap(taskLines)),
    ...section("Workflows", workflows.flatMap(workflowLines)),
    ...[...suites].flatMap(([suite, tests]) => section(`Tool tests: ${suite}`, tests.map(testLine))),
    ...section(
      "Agents",
      actingAgents(spec).map((agent) => `${agent.name}  ${kindOf(agent)}`),
    ),
    ...section(
      "Servers",
      Object.entries(spec.servers).map(
        ([name, server]) => `${name}  ${lifetimeOf(server)}  ${targetOf(server)}`,
      ),
    ),
    ...section(
      "Variants",
      (spec.variants ?? []).map((variant) => variantLine(variant, spec)),
    ),
  ]
    .map((line) => visibleText(line))
    .join("\n");
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ["", title, ...lines.map((line) => `  ${line}`)];
}

function workflowLines(task: Task): string[] {
  const turns = task.turns.length === 1 ? "1 turn" : `${task.turns.length} turns`;
  const tools = task.expectTools.length === 0 ? "" : `, expects ${task.expectTools.join(", ")}`;
  const description = visibleLines(task.description?.trim() ?? "").map((line) => `  ${line}`);
  return [`${task.name}  (${turns}${tools})`, ...(task.description === undefined ? [] : description)];
}

/** Longest part of a description or prompt that is shown. */
const purposeWidth = 90;

/** A task with its file, and what it is about in one line: its description, else what the agent is told. */
function taskLines({ name, description, turns, servers, portable }: Task): string[] {
  const labels = Object.entries(portable?.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const facts = [
    portable?.difficulty,
    ...(portable?.tags ?? []).map((tag) => `#${tag}`),
    ...labels,
    ...(servers.length === 0 ? [] : [`servers ${servers.join(", ")}`]),
  ].filter((fact) => fact !== undefined);
  const file = portable === undefined ? "" : `  ${relative(workingFolder(), portable.file)}`;
  const title = facts.length === 0 ? name : `${name}  (${facts.join(", ")})`;
  const purpose = firstLine(description) ?? firstLine(turns[0]?.user) ?? "no prompt";
  const shown = purpose.length > purposeWidth ? `${purpose.slice(0, purposeWidth)}…` : purpose;
  return [`${title}${file}`, `  ${shown}`];
}

/** Undefined for a text without one. */
function firstLine(text = ""): string | undefined {
  const [line = ""] = text.trim().split("\n");
  return line === "" ? undefined : line.trimEnd();
}

function kindOf(agent: AgentSpec): string {
  switch (agent.type) {
    case "model":
      return agent.model;
    case "scripted":
      return "a written plan, no model";
    case "oracle":
      return "plays the tasks' own solutions";
    case "null":
      return "does nothing";
    case "acp":
      return `acp  ${[agent.command, ...agent.args].join(" ")}`;
    case "command":
      return `command  ${[agent.command, ...agent.args].join(" ")}`;
  }
}

function testLine(task: Task): string {
  const [step] = task.verify;
  const title = task.suite === undefined ? task.name : task.name.slice(task.suite.length + 1);
  const tool = step?.type === "mcp" && step.request.kind === "tool" ? step.request.tool : title;
  return tool === title ? title : `${title}  (${tool})`;
}
