import { relative } from "node:path";
import type { Command } from "commander";
import type { AgentSpec, Eval, ServerSpec, Task, Variant } from "../../core/formats/model.ts";
import { actingAgents, effectiveServers, lifetimeOf, type ServerTable } from "../../core/plan/plan.ts";
import { visibleLines, visibleText } from "../../core/text/visible-text.ts";
import { createRedactor } from "../../core/trace/redact.ts";
import type { LoadedConfig } from "../../load/assemble-eval.ts";
import { load } from "../../load/load.ts";
import { prepare } from "../../run/prepare.ts";
import { addQueryFlags, type ConfigQuery, queryOf, type SetExitCode, type SourceFlags } from "../flags.ts";
import { workingFolder, writeJson, writeOut } from "../terminal.ts";

/** `mcpvals list`: shows what would be evaluated without starting anything. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addQueryFlags(command).action(async (sources: readonly string[], flags: SourceFlags) => {
    setExitCode(await execute(queryOf(sources, flags)));
  });
}

async function execute({ load: options, filters, json }: ConfigQuery): Promise<number> {
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

/** A task with its file, and its description, or else its prompt, in one line. */
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

/** A variant, and how its servers differ from those without it, in any of the tasks. */
export function variantLine({ name, servers }: Variant, spec: Eval): string {
  const all = Object.values(servers).flatMap((table) => Object.keys(table));
  const changes = spec.tasks.flatMap((task) => differences(withoutVariants(spec, task), servers[task.name]));
  const what = [...new Set(changes)];
  if (what.length > 0) return `${name}  ${what.join("; ")}`;
  return `${name}  ${all.length === 0 ? "no servers" : "the servers as they are"}`;
}

/** A task may name servers that only variants have. */
function withoutVariants(spec: Eval, task: Task): ServerTable {
  const own = spec.taskServers?.[task.name] ?? {};
  const known = task.servers.filter((name) => Object.hasOwn(own, name) || Object.hasOwn(spec.servers, name));
  return effectiveServers(spec, { ...task, servers: known }, undefined);
}

function differences(base: ServerTable, changed: ServerTable = {}): string[] {
  const names = [...new Set([...Object.keys(base), ...Object.keys(changed)])];
  return names.flatMap((name) => {
    const [before, after] = [base[name], changed[name]];
    if (after === undefined) return [`without ${name}`];
    if (before === undefined) return [`${name}: ${targetOf(after)}`];
    const what = difference(before, after);
    return what.length === 0 ? [] : [`${name}: ${what.join(", ")}`];
  });
}

/** The new target if it differs, and the settings that differ. */
function difference(before: ServerSpec, after: ServerSpec): string[] {
  const target = targetOf(after);
  const [old, set] = [settings(before), settings(after)];
  const isOtherKind = before.transport !== after.transport;
  const keys = [...new Set([...old.keys(), ...set.keys()])].filter(
    (key) => !isOtherKind || !ofOneKind.includes(key),
  );
  const changed = keys.filter((key) => old.get(key) !== set.get(key));
  return [
    ...(isOtherKind || targetOf(before) !== target ? [target] : []),
    ...changed.map((key) => describe(key, after)),
  ];
}

/** What only some kinds of servers have. */
const ofOneKind = ["env", "cwd", "headers", "auth", "mock"];

/** What a target does not show. */
function settings(server: ServerSpec): ReadonlyMap<string, string> {
  const shown = ["transport", "command", "args", "url"];
  const entries = Object.entries(server).filter(([key]) => !shown.includes(key));
  return new Map(entries.map(([key, value]) => [key, JSON.stringify(value)]));
}

function describe(key: string, server: ServerSpec): string {
  return key === "lifetime" ? lifetimeOf(server) : key.replace(/Ms$/, "");
}

/** The server's URL or command. */
function targetOf(server: ServerSpec): string {
  if (server.transport === "mock") return "written answers";
  return server.transport === "stdio" ? [server.command, ...server.args].join(" ") : server.url;
}
