import { relative } from "node:path";
import type { Command } from "commander";
import type { AgentSpec } from "../../model/agent.ts";
import type { Eval, Variant } from "../../model/eval.ts";
import type { ServerProgramSpec, ServerSpec } from "../../model/server.ts";
import { mostTurns, promptOf, simulatedUserOf, type Task, testedTool } from "../../model/task.ts";
import { actingAgents, effectiveServers, lifetimeOf, type ServerTable } from "../../model/plan.ts";
import { countOf, visibleLines, visibleText, shortened } from "../../base/visible-text.ts";
import type { LoadedConfig } from "../../formats/assemble-eval.ts";
import { load } from "../../formats/load.ts";
import { prepare } from "../../run/prepare.ts";
import { addQueryFlags, type ConfigQuery, queryOf, type SetExitCode, type SourceFlags } from "../flags.ts";
import { workingFolder, writeJson, writeOut, hideSecrets } from "../terminal.ts";
import { mapValues } from "../../base/json.ts";

/** `mcpvals list`: shows what would be evaluated without starting anything. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addQueryFlags(command).action(async (sources: readonly string[], flags: SourceFlags) => {
    setExitCode(await execute(queryOf(sources, flags)));
  });
}

async function execute({ load: options, filters, json }: ConfigQuery): Promise<number> {
  const loaded = prepare(await load({ ...options, cwd: workingFolder(), lookOnly: true }), filters);
  hideSecrets(loaded.secrets);
  if (json) writeJson(listing(loaded), 2);
  else writeOut(render(loaded.eval));
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
    lifetimes: mapValues(spec.servers, lifetimeOf),
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
  const ofForm = (form: Task["form"]): readonly Task[] => spec.tasks.filter((task) => task.form === form);
  const suites = Map.groupBy(ofForm("tool-test"), (task) => task.suite ?? "");
  const agents = actingAgents(spec).map((agent) => `${agent.name}  ${kindOf(agent)}`);
  const servers = Object.entries(spec.servers).map(
    ([name, server]) => `${name}  ${lifetimeOf(server)}  ${targetOf(server)}`,
  );
  const sections: [title: string, lines: readonly string[]][] = [
    ["Tasks", ofForm("task").flatMap(taskLines)],
    ["Workflows", ofForm("workflow").flatMap(workflowLines)],
    ...[...suites].map(([suite, tests]): [string, string[]] => [`Tool tests: ${suite}`, tests.map(testLine)]),
    ["Agents", agents],
    ["Servers", servers],
    ["Variants", (spec.variants ?? []).map((variant) => variantLine(variant, spec))],
  ];
  const shown = sections
    .filter(([, lines]) => lines.length > 0)
    .flatMap(([title, lines]) => ["", title, ...lines.map((line) => `  ${line}`)]);
  return [spec.name, ...shown].map((line) => visibleText(line)).join("\n");
}

function workflowLines(task: Task): string[] {
  const turns = turnsText(task);
  const tools = task.expectTools.length === 0 ? "" : `, expects ${task.expectTools.join(", ")}`;
  const description = visibleLines(task.description?.trim() ?? "").map((line) => `  ${line}`);
  return [`${task.name}  (${turns}${tools})`, ...(task.description === undefined ? [] : description)];
}

function turnsText(task: Task): string {
  const user = simulatedUserOf(task);
  const written = task.turns.length - (user === undefined ? 0 : 1);
  const simulated = user && `a simulated user for up to ${countOf(mostTurns(user), "turn")}`;
  const parts = [written > 0 || user === undefined ? countOf(written, "turn") : undefined, simulated];
  return parts.filter((part) => part !== undefined).join(", then ");
}

/** Longest part of a description or prompt that is shown. */
const purposeWidth = 90;

/** A task with its file, and its description, or else its prompt, in one line. */
function taskLines({ name, description, turns, servers, portable }: Task): string[] {
  const { difficulty, tags = [], labels = {}, file } = portable ?? {};
  const facts = [
    ...(difficulty === undefined ? [] : [difficulty]),
    ...tags.map((tag) => `#${tag}`),
    ...Object.entries(labels).map(([key, value]) => `${key}=${value}`),
    ...(servers.length === 0 ? [] : [`servers ${servers.join(", ")}`]),
  ];
  const title = facts.length === 0 ? name : `${name}  (${facts.join(", ")})`;
  const place = file === undefined ? "" : `  ${relative(workingFolder(), file)}`;
  const firstLines = [description, turns[0] && promptOf(turns[0])].map((text = "") =>
    text.trim().split("\n")[0]?.trimEnd(),
  );
  const purpose = firstLines.find(Boolean) ?? "no prompt";
  const shown = shortened(purpose, purposeWidth);
  return [`${title}${place}`, `  ${shown}`];
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
  const title = task.suite === undefined ? task.name : task.name.slice(task.suite.length + 1);
  const tool = testedTool(task) ?? title;
  return tool === title ? title : `${title}  (${tool})`;
}

/** A variant, and how its servers differ from those without it, in any of the tasks. */
export function variantLine({ name, servers }: Variant, spec: Eval): string {
  const all = Object.values(servers).flatMap((table) => Object.keys(table));
  const changes = spec.tasks.flatMap((task) => {
    // A task may name servers that only variants have.
    const tables = { ...spec.servers, ...spec.taskServers?.[task.name] };
    const known = task.servers.filter((server) => Object.hasOwn(tables, server));
    return differences(effectiveServers(spec, { ...task, servers: known }, undefined), servers[task.name]);
  });
  const what = [...new Set(changes)];
  if (what.length > 0) return `${name}  ${what.join("; ")}`;
  return `${name}  ${all.length === 0 ? "no servers" : "the servers as they are"}`;
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
  const isOtherKind = before.transport !== after.transport;
  const [old, set]: Readonly<Record<string, unknown>>[] = [{ ...before }, { ...after }];
  const changed = Object.keys({ ...before, ...after }).filter((key) => {
    if (inTarget.includes(key) || (isOtherKind && ofOneKind.includes(key))) return false;
    return JSON.stringify(old?.[key]) !== JSON.stringify(set?.[key]);
  });
  return [
    ...(isOtherKind || targetOf(before) !== target ? [target] : []),
    ...changed.map((key) => (key === "lifetime" ? lifetimeOf(after) : key.replace(/Ms$/, ""))),
  ];
}

/** What the target shows, and what only some kinds of servers have. */
const inTarget = ["transport", "command", "args", "url"];
const ofOneKind = ["program", "env", "cwd", "headers", "auth", "mock"];

function targetOf(server: ServerSpec): string {
  if (server.transport === "mock") return "written answers";
  if (server.transport === "stdio") return commandOf(server);
  return server.program === undefined ? server.url : `${server.url} (${commandOf(server.program)})`;
}

function commandOf({ command, args }: ServerProgramSpec): string {
  return [command, ...args].join(" ");
}
