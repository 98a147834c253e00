import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { asList, asObject, canonicalJson, type Json, withoutUndefined } from "../../base/json.ts";
import { wrapText } from "../../base/columns.ts";
import { visibleText } from "../../base/visible-text.ts";
import type { TrialResult } from "../../model/result.ts";
import type { Task } from "../../model/task.ts";
import {
  comparedTrial,
  type ComparedTask,
  type ComparedTrial,
  compareRuns,
  type RunComparison,
  type Side,
  type Statement,
  statementsOf,
} from "../../report/documents/compare-runs.ts";
import { replayRun } from "../../report/replay.ts";
import { minTasks, type Verdict } from "../../statistics/compare.ts";
import type { Proportion } from "../../statistics/rates.ts";
import { defaultRunsFolder, readRun } from "../../store/run-folder.ts";
import type { SetExitCode } from "../flags.ts";
import { columnsOf, writeError, writeJson, writeOut } from "../terminal.ts";

const failures = ["worse", "not-better", "undecided"] as const;

interface CompareFlags {
  readonly output?: string;
  readonly by?: "agent" | "variant";
  readonly about: "these-tasks" | "tasks-like-these";
  readonly margin?: number;
  readonly failOn?: (typeof failures)[number];
  readonly format: "text" | "json" | "markdown";
}

/** `mcpvals compare`: says whether one run, variant or agent is better than another, and how sure that is. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument(
      "<sides...>",
      "runs, or result files; the first is what the others are compared with. One run alone: its variants, or its agents",
    )
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .addOption(
      new Option("--by <what>", "compare the variants, or the agents, of one run").choices([
        "variant",
        "agent",
      ]),
    )
    .addOption(
      new Option("--about <question>", "which verdict --fail-on looks at")
        .choices(["these-tasks", "tasks-like-these"])
        .default("these-tasks"),
    )
    .option("--margin <points>", "difference of pass rates that does not matter, such as 5", pointsOf)
    .addOption(
      new Option(
        "--fail-on <verdict>",
        "exit with 1 if a side is worse, or not better, or also when it is undecided; an undecided comparison is exit code 3 otherwise",
      ).choices(failures),
    )
    .addOption(
      new Option("-f, --format <format>", "format of the output")
        .choices(["text", "json", "markdown"])
        .default("text"),
    )
    .action(async (sides: readonly string[], flags: CompareFlags) =>
      setExitCode(await execute(sides, flags)),
    );
}

function pointsOf(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value > 0 && value < 100) return value / 100;
  throw new InvalidArgumentError("Give a number of points above 0 and below 100, such as 5.");
}

interface NamedSide extends Side {
  readonly name: string;
  /** What it is called in sentences. */
  readonly label: string;
  readonly variants: readonly string[];
}

/** One side against the first. */
interface Compared {
  readonly first: NamedSide;
  readonly side: NamedSide;
  readonly comparison: RunComparison;
  readonly statements: readonly Statement[];
}

/** Returns the exit code. Throws McpvalsError of kind `usage`, and that of a run that cannot be read. */
async function execute(names: readonly string[], flags: CompareFlags): Promise<number> {
  const runs = resolve(flags.output ?? defaultRunsFolder);
  const read: NamedSide[] = [];
  for (const name of names) read.push(await readSide(name, runs));
  const { sides, across } = sidesOf(read, flags.by);
  const [first, ...others] = sides;
  if (first === undefined || others.length === 0)
    throw new McpvalsError("usage/invalid-option", "there is nothing to compare with", {
      hint: "Name two runs, or one run with several variants or agents.",
    });
  const compared = others.map((side): Compared => {
    const comparison = compareRuns<ComparedTrial>(first, side, { across });
    const names = [first.label, side.label] as const;
    const statements = statementsOf(comparison, withoutUndefined({ names, margin: flags.margin }));
    return { first, side, comparison, statements };
  });
  if (flags.format === "json") writeJson(documentOf(first.name, compared, flags.margin), 2);
  else writeOut((flags.format === "text" ? textOf : markdownOf)(compared).join("\n"));
  const metric = flags.about === "these-tasks" ? "pass rate" : "pass rate of tasks like these";
  const verdicts = compared.map(
    ({ statements }) => statements.find((each) => each.metric === metric)?.verdict ?? "undecided",
  );
  return flags.failOn === undefined ? 0 : exitCodeOf(verdicts, flags.failOn);
}

function exitCodeOf(verdicts: readonly Verdict[], failOn: (typeof failures)[number]): number {
  const isFailure = (verdict: Verdict): boolean =>
    verdict === "worse" ||
    (failOn === "not-better" && verdict === "equivalent") ||
    (failOn === "undecided" && verdict === "undecided");
  if (verdicts.some(isFailure)) return 1;
  return verdicts.includes("undecided") ? 3 : 0;
}

/** The sides that are compared: the runs, or the variants or agents of the only one. */
function sidesOf(
  read: readonly NamedSide[],
  by: CompareFlags["by"],
): { readonly sides: readonly NamedSide[]; readonly across?: "agent" | "variant" | undefined } {
  const [only, ...others] = read;
  if (only === undefined || others.length > 0) {
    // Ids of runs are long.
    if (by === undefined)
      return { sides: read.map((side, index) => ({ ...side, label: String.fromCodePoint(65 + index) })) };
    throw new McpvalsError(
      "usage/invalid-option",
      "--by is for one run, whose variants or agents are compared",
      {
        hint: "Name one run, or leave out --by.",
      },
    );
  }
  const across = by ?? (only.variants.length > 1 ? "variant" : "agent");
  const parts = across === "variant" ? only.variants : only.agents.map(({ name }) => name);
  return {
    across,
    sides: parts.map((name) => ({
      ...only,
      name,
      label: name,
      trials: only.trials.filter((trial) => trial[across] === name),
    })),
  };
}

/** Reads a side: a result file, else a run by its id, the start of it, its folder, or `latest`. */
async function readSide(name: string, runs: string): Promise<NamedSide> {
  const path = resolve(name);
  if (name.endsWith(".json") && existsSync(path) && statSync(path).isFile()) return resultFile(name, path);
  const stored = await readRun(runs, name);
  if (stored.torn) writeError(`${name}: the journal's last line is incomplete and was ignored.`);
  const { result } = replayRun(stored);
  const hashes = new Map(stored.plan.tasks.map((task) => [task.name, hashOf(task)]));
  return { ...sideOf(stored.id, result.trials, result.environment.agents), hashes };
}

function resultFile(name: string, path: string): NamedSide {
  let document: Json;
  try {
    document = JSON.parse(readFileSync(path, "utf8")) as Json;
  } catch (cause) {
    throw new McpvalsError("config/unreadable", `${name} cannot be read as JSON`, { cause });
  }
  const { trials, environment } = asObject(document);
  const { agents } = asObject(environment);
  if (!Array.isArray(trials) || !Array.isArray(agents))
    throw new McpvalsError("config/invalid-value", `${name} is not a result of mcpvals: it has no trials`, {
      hint: "Write one with: npx mcpvals run … --reporter json=result.json",
    });
  return sideOf(name, asList(trials) as readonly TrialResult[], asList(agents) as Side["agents"]);
}

function sideOf(name: string, results: readonly TrialResult[], agents: Side["agents"]): NamedSide {
  const trials = results.map(comparedTrial);
  const variants = new Set(trials.flatMap(({ variant }) => variant ?? []));
  return { name, label: name, trials, agents, variants: [...variants] };
}

/** Hash of what a task is and how it is graded, wherever its file is. */
function hashOf(task: Task): string {
  const { location: _, servers: __, graders = [], portable, ...rest } = task;
  const plain = {
    ...rest,
    graders: graders.map(({ type, name, weight, required, config }) => ({
      type,
      name,
      weight,
      required,
      config,
    })),
    portable: portable && { ...portable, file: "", dir: "", repository: "", extensions: {} },
  };
  return createHash("sha256")
    .update(canonicalJson(JSON.parse(JSON.stringify(plain)) as Json))
    .digest("hex");
}

/** Most tasks that are listed. */
const maxShownTasks = 20;

function indented(line: string): string {
  return line === "" ? "" : `  ${line}`;
}

function textOf(compared: readonly Compared[]): readonly string[] {
  const columns = columnsOf(process.stdout);
  return compared.flatMap(({ first, side, comparison, statements }, index) => [
    ...(index === 0 ? [] : [""]),
    visibleText(`${titleOf(side)} compared with ${titleOf(first)}`),
    "",
    ...(statements.length === 0
      ? ["  They have no task in common that both measured, so nothing can be compared."]
      : statements.flatMap(({ verdict, text, changes = "" }) =>
          wrapText(visibleText(`${text} ${changes}`.trimEnd()), columns - textColumn).map(
            (line, at) => (at === 0 ? `  ${verdict}` : "").padEnd(textColumn) + line,
          ),
        )),
    ...rateLines(first.label, side.label, comparison).map(visibleText).map(indented),
    ...taskLines(comparison).map(visibleText).map(indented),
  ]);
}

/** Where sentences begin, behind the longest verdict. */
const textColumn = 14;

/** A side by its name, and by its letter where it has one. */
function titleOf({ name, label }: NamedSide): string {
  return name === label ? name : `${label} (${name})`;
}

function rateLines(
  first: string,
  second: string,
  { rates, tasksLikeThese }: RunComparison,
): readonly string[] {
  if (rates === undefined) return [];
  const width = Math.max(first.length, second.length);
  const isKnown = (tasksLikeThese?.pairs ?? 0) >= minTasks;
  const line = (name: string, { theseTasks: these, tasksLikeThese: others }: typeof rates.before): string =>
    `${name.padEnd(width)}  ${rateText(these)} on these tasks${others === undefined || !isKnown ? "" : `, ${rangeText(others)} for tasks like these`}`;
  return ["", "Pass rates, with 95 % intervals:", line(first, rates.before), line(second, rates.after)];
}

function taskLines({ tasks }: RunComparison): readonly string[] {
  const moved = tasks.filter(({ difference = 0 }) => difference !== 0);
  const others = tasks.filter(({ difference }) => difference === undefined);
  const shown = [...moved, ...others].slice(0, maxShownTasks);
  const more = moved.length + others.length - shown.length;
  return [
    ...(shown.length === 0 ? [] : ["", "Tasks that changed or were not compared:"]),
    ...shown.map((task) => `${nameOf(task)}  ${changeText(task)}`),
    ...(more === 0 ? [] : [`… and ${more} more; all are in --format json`]),
  ];
}

function nameOf({ task, agent, variant }: ComparedTask): string {
  const rest = [agent, variant].filter((each) => each !== undefined);
  return rest.length === 0 ? task : `${task} (${rest.join(", ")})`;
}

function changeText({ before, after, changed }: ComparedTask): string {
  if (before === undefined) return "only on the second side";
  if (after === undefined) return "only on the first side";
  if (changed === true) return "not compared: the task, or how it is graded, is not the same";
  return `${countText(before)} → ${countText(after)}`;
}

function countText({ passed, scored, trials }: NonNullable<ComparedTask["before"]>): string {
  const unscored = trials.length - scored;
  const rest = unscored === 0 ? "" : ` (${unscored} without a verdict)`;
  return scored === 0 ? `no verdict in ${trials.length}` : `${passed}/${scored}${rest}`;
}

function rateText(rate: Proportion): string {
  return `${percent(rate.value)} (${rangeText(rate)})`;
}

function rangeText({ low, high }: Proportion): string {
  return `${percent(low)} to ${percent(high)}`;
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}

/** A text in a table of Markdown. */
function cell(text: string): string {
  return visibleText(text).replaceAll("|", String.raw`\|`);
}

function markdownOf(compared: readonly Compared[]): readonly string[] {
  return compared.flatMap(({ first, side, comparison, statements }) => [
    `## ${cell(titleOf(side))} compared with ${cell(titleOf(first))}`,
    "",
    ...(statements.length === 0
      ? ["They have no task in common that both measured, so nothing can be compared."]
      : statements.map(
          ({ verdict, text, changes = "" }) => `- **${verdict}**: ${cell(`${text} ${changes}`.trimEnd())}`,
        )),
    "",
    `| task | ${cell(first.label)} | ${cell(side.label)} |`,
    "| --- | --- | --- |",
    ...comparison.tasks.map(
      (task) =>
        `| ${cell(nameOf(task))}${task.changed === true ? " (not the same task)" : ""} | ${task.before === undefined ? "-" : countText(task.before)} | ${task.after === undefined ? "-" : countText(task.after)} |`,
    ),
    "",
  ]);
}

/** The comparison as JSON. */
function documentOf(first: string, compared: readonly Compared[], margin: number | undefined): object {
  return {
    schema: "mcpvals.comparison/1",
    first,
    ...(margin === undefined ? {} : { margin }),
    compared: compared.map(({ side: { name }, comparison: { tasks, ...numbers }, statements }) => ({
      name,
      statements,
      ...numbers,
      tasks: tasks.map(taskDocument),
    })),
  };
}

function taskDocument({ task, agent, variant, changed, difference, before, after }: ComparedTask): object {
  return withoutUndefined({
    task,
    agent,
    variant,
    changed,
    difference,
    first: before && withoutTrials(before),
    second: after && withoutTrials(after),
  });
}

function withoutTrials({ trials, ...side }: NonNullable<ComparedTask["before"]>): object {
  return { ...side, unscored: trials.length - side.scored };
}
