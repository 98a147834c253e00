import type { Diagnostic } from "../../errors/error.ts";
import { buildEval, type BuildOptions, providedServers } from "./build-eval.ts";
import { readConfigServers } from "./config-servers.ts";
import type { Fixtures } from "./mock-tables.ts";
import type { ServerTable } from "./server-tables.ts";
import type { ProvidedServers } from "./provided-servers.ts";
import { configNotes } from "./config-notes.ts";
import { checkRules } from "./config-rules.ts";
import { configSchema } from "./config-schema.ts";
import { withUsualTransports } from "./usual-transports.ts";
import { viewConfig } from "./config-view.ts";
import { extensionPackageProblems, missingSandboxProblems } from "../extension/extension-table-schema.ts";
import { asObject } from "../lenient.ts";
import { formatKeyPath, type KeyPath } from "../key-path.ts";
import type { Eval, Json } from "../model.ts";
import { placeProblems } from "../place-problems.ts";
import type { Locate, Problem } from "../problem.ts";
import { mostProblems, validate } from "../validate.ts";
import { problemsOfIssues } from "../zod-problems.ts";

export interface ParseConfigOptions extends BuildOptions {
  /** Texts as written, by formatted key path, of strings that variables went into; messages show these. */
  readonly templates?: ReadonlyMap<string, string>;
  /** Problems found before; what is wrong only because of them is not told again. */
  readonly earlier?: readonly Problem[];
  /** Reads a folder of fixtures of mocks. Absent: they are refused. */
  readonly readFixtures?: (path: string) => Fixtures;
  /** Servers from outside. */
  readonly provided?: ServerTable | undefined;
}

export type ParsedEval =
  | {
      readonly ok: true;
      readonly eval: Eval;
      readonly notes: readonly string[];
      /** What is said of tasks in files of their own, which are not in the eval yet. */
      readonly taskFiles: TaskFilesOfConfig;
      /** The servers that those tasks' own are laid over. */
      readonly provided: ProvidedServers;
    }
  | { readonly ok: false; readonly diagnostics: readonly Diagnostic[] };

export interface TaskFilesOfConfig {
  /** Paths and globs. */
  readonly patterns: readonly string[];
  /** Variables of the environment that their processes get. */
  readonly inheritEnv: readonly string[] | true;
}

/**
 * Checks a config document, with variables already replaced, and turns it into an eval. Gives every problem at once,
 * in the order of the file when `locate` knows lines.
 */
export function parseConfig(given: Json, options: ParseConfigOptions): ParsedEval {
  const { earlier = [], templates, readFixtures } = options;
  const unusable = earlier.filter((problem) => problem.path.length === 0);
  if (unusable.length > 0) return refusal(unusable, options.locate);
  const document = withUsualTransports(given);
  const { data, issues } = validate(configSchema, document);
  const tables = readConfigServers(document, { templates, readFixtures, ...outside(options) });
  const view = viewConfig(document, tables, options);
  const wrongValues = [
    ...problemsOfIssues(issues.slice(0, mostProblems), document, templates),
    ...tables.problems,
    ...extensionPackageProblems(asObject(document)["extensions"], ["extensions"]),
    ...missingSandboxProblems(asObject(document)["extensions"], ["extensions"]),
  ];
  const found = notCausedBy(earlier, wrongValues);
  const broken = notCausedBy([...earlier, ...found], checkRules(view));
  const problems = [...earlier, ...found, ...broken].slice(0, mostProblems);
  if (problems.length > 0 || data === undefined) return refusal(problems, options.locate);
  const taskFiles = { patterns: data.tasks, inheritEnv: data.inheritEnv };
  const provided = providedServers(data, tables, options);
  return {
    ok: true,
    eval: buildEval(data, provided, options),
    notes: configNotes(data, { judged: view.judged, servers: tables.servers }),
    taskFiles,
    provided,
  };
}

function outside({ provided }: ParseConfigOptions): { readonly provided?: ServerTable } {
  return provided === undefined ? {} : { provided };
}

function refusal(problems: readonly Problem[], locate: Locate): ParsedEval {
  return { ok: false, diagnostics: placeProblems(problems, locate) };
}

/** Leaves out problems that are only the consequence of others at or around the same place. */
function notCausedBy(causes: readonly Problem[], problems: readonly Problem[]): Problem[] {
  const unusable = new Set(
    causes.filter((cause) => cause.at === "value" && spoilsItsValue(cause)).map(keyOf),
  );
  const touched = new Set(causes.flatMap((cause) => prefixes(cause.path)));
  return problems.filter((problem) => {
    // What a workflow expects cannot be told while something inside it is wrong.
    if (problem.code === "config/checks-nothing") return !touched.has(keyOf(problem));
    // A key can be wrong besides the value behind it.
    const around = problem.at === "key" ? problem.path.slice(0, -1) : problem.path;
    return !prefixes(around).some((prefix) => unusable.has(prefix));
  });
}

function spoilsItsValue(problem: Problem): boolean {
  return problem.path.length > 0 && problem.code !== "config/missing-key";
}

function keyOf(problem: Problem): string {
  return formatKeyPath(problem.path);
}

function prefixes(path: KeyPath): string[] {
  return path.map((_, index) => formatKeyPath(path.slice(0, index + 1)));
}
