import * as z from "zod";
import type { Diagnostic } from "../../errors/error.ts";
import { extensionPackageProblems, missingSandboxProblems } from "../extension/extension-table-schema.ts";
import { asObject, formatKeyPath, type KeyPath } from "../json.ts";
import type { Eval, Json } from "../model.ts";
import { type Locate, mostProblems, placeProblems, type Problem, validate } from "../problem.ts";
import { echoedArguments, inexactNumbers, shortTexts, strayKeys } from "../weak-expectations.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { buildEval, type BuildOptions, expectedTools, providedServers } from "./build-eval.ts";
import { checkRules } from "./config-rules.ts";
import { configSchema, type ParsedConfig } from "./config-schema.ts";
import type { ParsedServer } from "./server.ts";
import {
  type ProvidedServers,
  readConfigServers,
  type ServerTable,
  withUsualTransports,
} from "./server-tables.ts";
import { viewConfig } from "./config-view.ts";
import type { Fixtures } from "./mock.ts";

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

/**
 * Whether a path of a config leads to a key that the format itself names, outside of what is tested: written as undefined
 * by a program, it counts as absent. Names of the author's own (of servers, variables, headers), arguments and everything in
 * workflows and tests must be there: an expectation that turned out as undefined would be none.
 */
export function isSettingOfConfig(path: KeyPath): boolean {
  const [first] = path;
  return first !== "workflows" && first !== "toolHealthSuites" && isNamedBy(configSchema, path);
}

function isNamedBy(schema: z.core.$ZodType, path: KeyPath): boolean {
  const [key, ...rest] = path;
  if (key === undefined) return true;
  if (schema instanceof z.ZodObject) {
    const member = Object.entries(schema.shape).find(([name]) => name === key)?.[1];
    return member !== undefined && isNamedBy(member, rest);
  }
  // A key of a table is a name of the author's own, so that it cannot end the path.
  if (schema instanceof z.ZodRecord) return rest.length > 0 && isNamedBy(schema.valueType, rest);
  if (schema instanceof z.ZodArray) return rest.length > 0 && isNamedBy(schema.element, rest);
  if (schema instanceof z.ZodUnion) return schema.options.some((each) => isNamedBy(each, path));
  if (schema instanceof z.ZodPipe) return isNamedBy(schema.in, path);
  if (schema instanceof z.ZodLazy) return isNamedBy(schema.unwrap(), path);
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodNullable
  )
    return isNamedBy(schema.unwrap(), path);
  return false;
}

/** What is valid but does not do what its author may think: one sentence each. */
function configNotes(
  config: ParsedConfig,
  { judged, servers }: { readonly judged: boolean; readonly servers: Servers },
): string[] {
  return [
    ...serverNotes(servers),
    ...lifetimeNotes(config),
    ...judgeNotes(config, judged),
    ...workflowNotes(config),
    ...weakNotes(config),
  ];
}

type Servers = Readonly<Record<string, ParsedServer>>;

function lifetimeNotes({ serverLifetime, mcp_server_lifetime: other }: ParsedConfig): string[] {
  return serverLifetime === undefined || other === undefined
    ? []
    : ["mcp_server_lifetime has no effect: serverLifetime wins"];
}

function serverNotes(servers: Servers): string[] {
  return Object.entries(servers).flatMap(([name, server]) => {
    if (server.transport !== "sse") return [];
    const keys = (["reconnect", "reconnectInterval", "maxReconnectAttempts"] as const).filter(
      (key) => server[key] !== undefined,
    );
    return keys.map((key) => `server "${name}": ${key} has no effect; a lost connection is an error`);
  });
}

function judgeNotes(config: ParsedConfig, judged: boolean): string[] {
  const { judge, judgeModel } = config;
  if (!judged) {
    const unused = judge !== undefined && config.tasks.length === 0;
    return unused ? ["judge is not asked: set llmJudge to true, or pass --llm"] : [];
  }
  return judge === undefined || judgeModel === "gpt-4o" ? [] : [`judgeModel has no effect: judge.model wins`];
}

function workflowNotes(config: ParsedConfig): string[] {
  return config.workflows.flatMap((workflow) => {
    const stepTools = workflow.steps.flatMap((step) => step.expectTools ?? []);
    const tools = expectedTools(workflow);
    if (stepTools.length === 0 || JSON.stringify(stepTools) === JSON.stringify(tools)) return [];
    return [
      `workflow "${workflow.name}": expectTools of its steps has no effect; the workflow's own list wins`,
    ];
  });
}

/** Expectations that say less than their author may think. */
function weakNotes({ workflows, toolHealthSuites }: ParsedConfig): string[] {
  const steps = workflows.flatMap(({ steps: turns }, workflow) =>
    turns.flatMap(({ expectedState, expectedError }, index) => {
      const path = ["workflows", workflow, "steps", index];
      return [
        ...shortTexts(expectedState, [...path, "expectedState"]),
        ...shortTexts(expectedError, [...path, "expectedError"]),
      ];
    }),
  );
  const tests = toolHealthSuites.flatMap((suite, index) =>
    suite.tests.flatMap(({ name, args, expectedResult, expectedError }, test) => {
      const path = ["toolHealthSuites", index, "tests", test];
      return [
        ...shortTexts(expectedResult, [...path, "expectedResult"]),
        ...shortTexts(expectedError, [...path, "expectedError"]),
        ...echoedArguments(expectedResult, { tool: name, args }, [...path, "expectedResult"]),
        ...strayKeys(args, ["expectedResult", "expectedError", "maxLatency"], [...path, "args"]),
        ...inexactNumbers(args, [...path, "args"]),
        ...inexactNumbers(expectedResult, [...path, "expectedResult"]),
      ];
    }),
  );
  return [...steps, ...tests].map(({ message }) => message);
}
