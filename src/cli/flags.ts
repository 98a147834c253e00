import { resolve } from "node:path";
import type { Attack } from "../model/server.ts";
import { type Command, InvalidArgumentError, Option } from "commander";
import { McpvalsError } from "../base/error.ts";
import { agentPresets } from "../agents/programs/presets.ts";
import { reporterHelp } from "../model/reporter.ts";
import { parseDuration } from "../base/duration.ts";
import { exact, isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { type FailOn, failOnNames } from "../statistics/compare.ts";
import type { Budget, Thresholds } from "../model/eval.ts";
import type { LoadOptions } from "../formats/load.ts";
import type { Target } from "../formats/target.ts";
import type { ExtensionsOptions, Filters } from "../run/prepare.ts";
import { writeError } from "./terminal.ts";

/** How a command reports its exit code. */
export type SetExitCode = (code: number) => void;

/** The flags of a command that compares. */
export interface FailOnFlags {
  /** 0 to 1. */
  readonly margin?: number;
  readonly failOn?: FailOn;
}

/** Adds what says which difference matters, and which verdict fails; `of` is what has a verdict. */
export function addFailOnFlags(command: Command, of: string): Command {
  return command
    .option("--margin <points>", "difference of pass rates that does not matter, such as 5", points)
    .addOption(
      new Option(
        "--fail-on <verdict>",
        `worse: exit with 1 if ${of} is worse; not-better: also if it is equivalent; undecided: also if it is undecided, which is exit code 3 otherwise. Without it a comparison only reports`,
      ).choices(failOnNames),
    );
}

/** Most points that can be a margin: with more, nearly anything would be as good. */
const maxMargin = 50;

/** Reads a difference of pass rates in points, such as `5`, as a share. */
function points(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value > 0 && value <= maxMargin) return value / 100;
  throw new InvalidArgumentError(`Give a number of points above 0, at most ${maxMargin}, such as 5.`);
}

/** Collects a repeatable option. */
export function collect(value: string, previous: readonly string[] | undefined): readonly string[] {
  return [...(previous ?? []), value];
}

export function wholeNumber(most: number, least = 1): (value: string) => number {
  return (value) => {
    const number = value.trim() === "" ? NaN : Number(value);
    if (Number.isInteger(number) && number >= least && number <= most) return number;
    throw new InvalidArgumentError(`Give a whole number from ${least} to ${most}.`);
  };
}

/** Reads a duration such as `500ms`, `2s` or `5m` into milliseconds. A number without a unit may be meant as anything. */
export function duration(value: string): number {
  if (/^[\d.\s]+$/.test(value))
    throw new InvalidArgumentError(
      `Give it a unit: ${value.trim()}s, ${value.trim()}m or ${value.trim()}ms.`,
    );
  const ms = parseDuration(value);
  if (ms !== undefined && ms > 0) return ms;
  throw new InvalidArgumentError("Give a duration such as 500ms, 2s or 5m.");
}

const ageUnits: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Reads an age such as `12h`, `30d` or `8w` into milliseconds; it may be longer than a timer can wait. */
export function age(value: string): number {
  const [, count, unit = ""] = /^(\d{1,6})([mhdw])$/.exec(value) ?? [];
  const unitMs = ageUnits[unit];
  if (count !== undefined && unitMs !== undefined) return Number(count) * unitMs;
  throw new InvalidArgumentError("Give an age such as 90m, 12h, 30d or 8w.");
}

/** Reads a SHA-256 in hex; small and capital letters are the same. */
export function sha256(value: string): string {
  if (/^[0-9a-f]{64}$/i.test(value)) return value.toLowerCase();
  throw new InvalidArgumentError("Give 64 hexadecimal digits.");
}

export function jsonObject(value: string): JsonObject {
  try {
    const read = JSON.parse(value) as Json;
    if (isJsonObject(read)) return read;
  } catch {
    // not JSON
  }
  throw new InvalidArgumentError("Give a JSON object.");
}

/** Collects `KEY=VALUE` texts as they are. */
function label(value: string, previous: readonly string[] | undefined): readonly string[] {
  if (value.indexOf("=") < 1) throw new InvalidArgumentError("Write it as KEY=VALUE.");
  return collect(value, previous);
}

/** The error for a value that may be a secret: unlike `InvalidArgumentError` it does not quote the value. */
function unreadable(flag: string, hint: string): McpvalsError {
  return new McpvalsError("usage/invalid-option", `${flag}: its value cannot be read`, { hint });
}

/** Collects `NAME=VALUE` pairs. */
export function variable(
  value: string,
  previous: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> {
  const split = value.indexOf("=");
  if (split < 1) throw unreadable("--env", "Write it as NAME=VALUE.");
  return { ...previous, [value.slice(0, split)]: value.slice(split + 1) };
}

/** Adds `--reporter`, with what each reporter is for. */
export function addReporterFlag(command: Command): Command {
  const known = Object.entries(reporterHelp).map(([name, help]) => `${name} (${help})`);
  return command.option("-r, --reporter <name[=file]>", `${known.join(", ")}; repeatable`, collect);
}

/** Collects `NAME: VALUE` headers. */
function header(
  value: string,
  previous: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> {
  const [, name = "", text = ""] = /^([!#$%&'*+.^`|~\w-]+):\s*(.*)$/.exec(value) ?? [];
  if (name === "") throw unreadable("--header", 'Write it as "NAME: VALUE", in quotes for the shell.');
  return { ...previous, [name]: text };
}

/** The flags that say which servers a command looks at, as commander gives them. */
export interface TargetFlags {
  readonly server?: string;
  readonly header?: Readonly<Record<string, string>>;
  readonly bearerEnv?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** The help of the argument that says which servers a command looks at. */
export const targetHelp =
  "a URL, a config or a client's file such as .mcp.json; or after -- a command with its arguments (default: the file with servers in this or a parent folder)";

/** Adds the target of a command that looks at servers, with its flags; `targetOf` reads it. */
export function addTarget(command: Command): Command {
  return addTargetFlags(command.argument("[target...]", targetHelp));
}

export function addTargetFlags(command: Command): Command {
  return command
    .option("-s, --server <name>", "only this server of the file")
    .option("--header <name: value>", "HTTP header for a URL; repeatable", header)
    .option("--bearer-env <variable>", "environment variable with a bearer token for a URL")
    .option("-e, --env <name=value>", "variable for files and programs; repeatable", variable)
    .option("--cwd <dir>", "folder in which the command starts (default: this one)");
}

function programOf({ parent }: Command): readonly string[] | undefined {
  const { rawArgs = [] } = (parent ?? {}) as { readonly rawArgs?: readonly string[] };
  const end = rawArgs.indexOf("--");
  return end === -1 ? undefined : rawArgs.slice(end + 1);
}

export function wordsOf(command: Command): readonly string[] {
  const { args } = command;
  return args.slice(0, args.length - (programOf(command)?.length ?? 0));
}

/** The target that a command line names; `words` are those that may name it. Throws `usage/invalid-option` for more than one. */
export function targetOf(command: Command, words: readonly string[] = wordsOf(command)): Target {
  const { header: headers, cwd: commandCwd, server, bearerEnv, env } = command.opts<TargetFlags>();
  const [source, second] = words;
  if (second !== undefined) {
    // The words of a header without quotes may be a secret.
    const which = headers === undefined ? `: ${source} and ${second}` : "";
    throw new McpvalsError("usage/invalid-option", `two targets were given${which}`, {
      hint: "Name one. A command goes after --: npx mcpvals check -- node server.js. A header is one word of the shell: quote it.",
    });
  }
  return { source, command: programOf(command), headers, commandCwd, server, bearerEnv, env };
}

/** Collects `NAME=VALUE` thresholds. */
function threshold(value: string, previous: Thresholds | undefined): Thresholds {
  const split = value.lastIndexOf("=");
  const written = value.slice(split + 1).trim();
  const number = written === "" ? NaN : Number(written);
  if (split > 0 && number >= 0 && number < Infinity) return { ...previous, [value.slice(0, split)]: number };
  throw new InvalidArgumentError("Write it as NAME=VALUE, with a number, such as passRate=0.9.");
}

export function addThresholdFlag(command: Command): Command {
  return command.option(
    "--threshold <name=value>",
    "fail when it is lower, from 0 to 1: score, passRate, lowerBound (lower end of the 95 % interval of the pass rate; undecided, exit code 3, while the interval contains the value), answerRate, toolCoverage or the name of a grader; when it is higher: a measurement, such as invalidCallRate, maxCost (mean cost of an agent in a trial) or maxP95Latency (of calls of tools, in milliseconds); repeatable",
    threshold,
  );
}

/** The flags of a budget, as commander gives them. */
export interface BudgetFlags {
  readonly budgetCost?: number;
  readonly budgetTokens?: number;
  readonly budgetCalls?: number;
  readonly budgetTime?: number;
  readonly withoutBudget?: boolean;
}

/** The flags of {@link BudgetFlags} that give one. */
export const budgetFlags: readonly string[] = ["budgetCost", "budgetTokens", "budgetCalls", "budgetTime"];

export function addBudgetFlags(command: Command): Command {
  return command
    .option(
      "--budget-cost <amount>",
      "begin no further trial when models have cost this much; needs prices",
      amount,
    )
    .option("--budget-tokens <n>", "begin no further trial when this many tokens are used", wholeNumber(1e12))
    .option(
      "--budget-calls <n>",
      "begin no further trial when tools were called this often",
      wholeNumber(1e12),
    )
    .option(
      "--budget-time <duration>",
      "begin no further trial when the run has taken this long, such as 30m",
      duration,
    )
    .addOption(
      new Option("--without-budget", "run without a budget, whatever the file says").conflicts([
        ...budgetFlags,
      ]),
    );
}

/** Undefined without any; null: there is to be none. */
export function budgetOf({
  budgetCost,
  budgetTokens,
  budgetCalls,
  budgetTime,
  withoutBudget,
}: BudgetFlags): Budget | null | undefined {
  const budget = exact({ cost: budgetCost, tokens: budgetTokens, calls: budgetCalls, timeMs: budgetTime });
  return Object.keys(budget).length > 0 ? budget : withoutBudget === true ? null : undefined;
}

/** Reads an amount of money. */
function amount(value: string): number {
  const number = value.trim() === "" ? NaN : Number(value);
  if (number > 0 && number < Infinity) return number;
  throw new InvalidArgumentError("Give an amount above 0, such as 2.50.");
}

export function addPricesFlag(command: Command): Command {
  return command.option(
    "--prices <file>",
    "file with what models cost, instead of the one that the config names",
  );
}

export function addMaxWarningsFlag(command: Command): Command {
  const read = wholeNumber(1_000_000, 0);
  return command.option("--max-warnings <n>", "fail when there are more warnings than this", read);
}

/** The flags that say what is evaluated, as commander gives them. */
export interface SourceFlags {
  readonly config?: string;
  readonly task?: readonly string[];
  readonly tag?: readonly string[];
  readonly label?: readonly string[];
  readonly difficulty?: readonly string[];
  readonly variant?: readonly string[];
  readonly agent?: readonly string[];
  readonly model?: string;
  readonly judge?: string;
  readonly userModel?: string;
  readonly mcpConfig?: string;
  readonly prices?: string;
  readonly allowOutside?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

/** Adds the arguments and flags that say what is evaluated. */
export function addSourceFlags(command: Command): Command {
  const presets = agentPresets.join(", ");
  return addLoadingFlags(
    command
      .argument(
        "[sources...]",
        "a config, an Eval, or tasks: files, folders, globs (default: the config in this or a parent folder)",
      )
      .option("-c, --config <file>", "the config, an alternative to the argument")
      .option("-t, --task <glob>", "only tasks whose name matches; repeatable", collect)
      .option("--tag <tag>", "only tasks with this tag; repeatable", collect)
      .option(
        "-l, --label <key=value>",
        "only tasks with this label; repeatable: several values of one key are alternatives",
        label,
      )
      .option("--difficulty <level>", "only tasks of this difficulty; repeatable", collect)
      .option("--variant <name>", "only this variant of the servers; repeatable", collect)
      .option(
        "-a, --agent <name>",
        `agent of the file, a model id, oracle, null or a preset (${presets}); repeatable`,
        collect,
      )
      .option("--model <id>", "model of the agents that --agent names by their preset"),
  );
}

export function addAttackFlag(command: Command): Command {
  return command.option(
    "--attack [name]",
    "inject attacks into what servers return, each in trials of its own: all that are built in, or those of a class or with an id, without those after a !; a file such as attacks.yaml adds its own to the built-in ones; repeatable",
    (value: string, given: unknown) => [...(Array.isArray(given) ? (given as readonly string[]) : []), value],
  );
}

export interface AttackFlags {
  /** True: all that are built in. */
  readonly attack?: true | readonly string[];
}

/** The attacks that `--attack` means; undefined: none. Throws McpvalsError of kind `usage`. */
export async function attacksOf(
  { attack }: AttackFlags,
  cwd: string,
): Promise<readonly Attack[] | undefined> {
  return attack && (await import("../formats/attacks.ts")).readAttacks(attack, cwd);
}

/** Absolute paths of the files in `--attack`. */
export async function attackFilesOf({ attack }: AttackFlags, cwd: string): Promise<readonly string[]> {
  if (typeof attack !== "object") return [];
  const { isAttackFile } = await import("../formats/attacks.ts");
  return attack.filter(isAttackFile).map((name) => resolve(cwd, name));
}

export function addLoadingFlags(command: Command): Command {
  return command
    .option("--judge <model>", "model of the judge, instead of the one in the files")
    .option("--user-model <model>", "model that plays simulated users, instead of the one in the files")
    .option(
      "--mcp-config <file>",
      "file with the servers of a client, such as .mcp.json, for tasks and Evals",
    )
    .option("--allow-outside", "allow paths outside the tasks' folders")
    .option("-e, --env <name=value>", "variable for the files and their stdio servers; repeatable", variable);
}

/**
 * What is to be loaded, without the folder that relative paths start from. Throws `usage/invalid-option` for a source
 * beside `--config`.
 */
export function loadOptions(sources: readonly string[], flags: SourceFlags): Omit<LoadOptions, "cwd"> {
  const { config } = flags;
  const other = config === undefined ? undefined : sources.find((source) => source !== config);
  if (other !== undefined) {
    const message = `two configs were given: ${other} and --config ${config}`;
    throw new McpvalsError("usage/invalid-option", message);
  }
  return {
    sources: config === undefined ? sources : [config],
    env: flags.env ?? {},
    agents: requestedAgents(flags),
    judgeModel: flags.judge,
    userModel: flags.userModel,
    mcpConfig: flags.mcpConfig,
    prices: flags.prices,
    allowOutside: flags.allowOutside ?? false,
  };
}

/** The agents of `--agent`, with the model of `--model`. Throws `usage/invalid-option` for a model that no preset is named for. */
function requestedAgents({ agent: names = [], model }: SourceFlags): readonly string[] {
  if (model === undefined) return names;
  const other = names.find((name) => !agentPresets.some((preset) => preset === name));
  if (names.length > 0 && other === undefined) return names.map((name) => `${name}/${model}`);
  const message =
    other === undefined
      ? "--model needs the agent whose model it is"
      : `--model is not for the agent ${JSON.stringify(other)}, which is no preset`;
  throw new McpvalsError("usage/invalid-option", message, {
    hint: `Name a preset: --agent codex --model ${model}. The agents of a file have their model there, and a model id is an agent by itself: --agent PROVIDER/MODEL.`,
  });
}

export function taskFilters({ task, tag, label: labels, difficulty, variant }: SourceFlags): Filters {
  return { tasks: task, tags: tag, labels, difficulties: difficulty, variants: variant };
}

/** The arguments of a command that reads files and starts no trial. */
export interface ConfigQuery {
  readonly load: Omit<LoadOptions, "cwd">;
  readonly filters: Filters;
  readonly json: boolean;
}

/** Adds what a command that reads files has, with `--json`. */
export function addQueryFlags(command: Command): Command {
  return addSourceFlags(command).option("--json", "print the output as JSON");
}

export function queryOf(
  sources: readonly string[],
  { json = false, ...flags }: SourceFlags & { readonly json?: boolean },
): ConfigQuery {
  return { load: loadOptions(sources, flags), filters: taskFilters(flags), json };
}

export interface ExtensionRunFlags {
  readonly frozen?: boolean;
  readonly releasesUrl?: string;
}

/** How a run gets its extensions. Progress and notes go to stderr, each note once even if there are several runs. */
export function extensionOptions({
  frozen = false,
  releasesUrl,
}: ExtensionRunFlags): Omit<ExtensionsOptions, "cwd"> {
  const written = new Set<string>();
  return {
    frozen,
    ...(releasesUrl === undefined ? {} : { releasesUrl }),
    onProgress: writeError,
    onNote(note) {
      if (!written.has(note)) writeError(`note: ${note}`);
      written.add(note);
    },
  };
}

/** Reads names with commas between them. */
export function nameList(text: string): readonly string[] {
  return text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}
