import * as z from "zod";
import type { Diagnostic } from "../../errors/error.ts";
import {
  extensionPackageProblems,
  missingSandboxProblems,
  type ParsedExtensionTable,
} from "../extension/extension-table-schema.ts";
import { formatKeyPath, type KeyPath } from "../json.ts";
import type { Eval, Json } from "../model.ts";
import { type Locate, mostProblems, placeProblems, type Problem, validate } from "../problem.ts";
import { echoedArguments, inexactNumbers, shortTexts, strayKeys } from "../weak-expectations.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { chooseAgents, type DeclaredAgents } from "./agent.ts";
import { buildEval, type BuildOptions, expectedTools, providedServers } from "./build-eval.ts";
import { checkConfig, checkPlans } from "./check-config.ts";
import { configSchema, type ParsedConfig } from "./config-schema.ts";
import type { Fixtures } from "./mock.ts";
import type { ParsedServer } from "./server.ts";
import {
  noServers,
  type ProvidedServers,
  readConfigServers,
  type ServerTable,
  withUsualTransports,
} from "./server-tables.ts";

export interface ParseConfigOptions extends BuildOptions {
  /** Texts as written, by formatted key path, of strings that variables went into; messages show these. */
  readonly templates?: ReadonlyMap<string, string>;
  /** Problems found before the document was parsed. */
  readonly earlier?: readonly Problem[];
  /** Reads a folder of fixtures of mocks. Absent: they are refused. */
  readonly readFixtures?: (path: string) => Fixtures;
  /** Servers from outside. */
  readonly provided?: ServerTable | undefined;
}

/** A config that fits its schema. */
export interface ConfigParts {
  /** Without the tasks from files. */
  readonly eval: Eval;
  readonly notes: readonly string[];
  /** Settings for tasks from files. */
  readonly taskFiles: TaskFilesOfConfig;
  /** The servers over which those of the tasks are merged. */
  readonly provided: ProvidedServers;
  readonly extensions: ParsedExtensionTable | undefined;
  readonly agents: DeclaredAgents;
}

export type ParsedEval =
  | ({ readonly ok: true } & ConfigParts)
  | {
      readonly ok: false;
      readonly diagnostics: readonly Diagnostic[];
      /** Present when only rules between its parts are broken. */
      readonly parts?: ConfigParts;
    };

export interface TaskFilesOfConfig {
  /** Paths and globs. */
  readonly patterns: readonly string[];
  /** Variables of the environment that their processes get. */
  readonly inheritEnv: readonly string[] | true;
}

/**
 * Checks a config document, with variables already replaced, and turns it into an eval. Gives all problems with the schema; when
 * there are none, all broken rules between the parts. They are in the order of the file when `locate` knows lines.
 */
export function parseConfig(given: Json, options: ParseConfigOptions): ParsedEval {
  const { earlier = [], templates = new Map(), readFixtures, locate, agents: requested = [] } = options;
  const { provided: outside = noServers } = options;
  const document = withUsualTransports(given);
  const { data, issues } = validate(configSchema, document);
  const servers = readConfigServers(document, { templates, readFixtures, provided: outside });
  const found = [
    ...problemsOfIssues(issues.slice(0, mostProblems), document, templates),
    ...servers.problems,
  ];
  const wrong = [
    ...earlier,
    ...found.filter((problem) => !earlier.some((cause) => isWithin(problem, cause))),
  ];
  if (wrong.length > 0 || data === undefined) return refusal(wrong, locate);
  const chosen = chooseAgents(data, requested);
  const judged = options.judge ?? (data.llmJudge || options.judgeModel !== undefined);
  const hasProvided = Object.keys(outside.written).length > 0;
  const provided = providedServers(data, servers, options);
  const parts: ConfigParts = {
    eval: buildEval(data, { provided, chosen, judged }, options),
    notes: configNotes(data, { judged, servers: servers.servers }),
    taskFiles: { patterns: data.tasks, inheritEnv: data.inheritEnv },
    provided,
    extensions: data.extensions,
    agents: { agent: data.agent, agents: data.agents },
  };
  const broken = [
    ...extensionPackageProblems(data.extensions, ["extensions"]),
    ...missingSandboxProblems(data.extensions, ["extensions"]),
    ...checkConfig({ config: data, servers, hasProvided, chosen, requested, judged, templates }),
    // Tasks from files may have plans too, and are not known here.
    ...(data.tasks.length === 0 ? checkPlans(data, parts.eval) : []),
  ];
  return broken.length > 0 ? { ...refusal(broken, locate), parts } : { ok: true, ...parts };
}

function refusal(
  problems: readonly Problem[],
  locate: Locate,
): { readonly ok: false; readonly diagnostics: readonly Diagnostic[] } {
  return { ok: false, diagnostics: placeProblems(problems.slice(0, mostProblems), locate) };
}

/** Whether a problem is at the place of another one, or inside it. */
function isWithin({ path }: Problem, { path: outer }: Problem): boolean {
  return formatKeyPath(path.slice(0, outer.length)) === formatKeyPath(outer);
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

/** Notes on what is valid but may not do what its author expects: one sentence each. */
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

/** Expectations that check less than their author may expect. */
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
