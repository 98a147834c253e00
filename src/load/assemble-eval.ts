import { type EvalExtensions, settingsOf } from "../core/formats/extension/eval-extensions.ts";
import type { AgentSpec, Eval, JudgeSpec, ServerSpec } from "../core/formats/model.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import type { EnvironmentVariables } from "./environment.ts";
import type { FileProblems } from "./file-problems.ts";
import type { LoadedConfig } from "./load-config.ts";
import { extensionVariables, maskedUses } from "./extensions.ts";
import { collectSecrets, serversOfEval } from "./secrets/secrets.ts";
import type { Surroundings } from "./surroundings.ts";
import { idleRubrics, sameNames, type TasksOfEval } from "./tasks/parse-tasks.ts";

/** What an eval of tasks is made of. */
export interface EvalParts {
  readonly name: string;
  /** Absolute path, when one file stands for the eval. */
  readonly file?: string;
  readonly dir: string;
  readonly servers: Readonly<Record<string, ServerSpec>>;
  /** Names of sets of servers; what tasks start in them is said by the tasks. */
  readonly variants?: readonly string[] | undefined;
  /** Begins the random numbers of faults. */
  readonly seed?: number | undefined;
  readonly agents: readonly AgentSpec[];
  readonly judge: JudgeSpec | undefined;
  readonly tasks: TasksOfEval;
  /** What the eval says of extensions; absent: nothing. */
  readonly extensions?: EvalExtensions;
  readonly trials?: number | undefined;
  readonly concurrency?: number | undefined;
  /** Longest that a trial of a task that sets no limit may take. */
  readonly trialMs?: number | undefined;
  /** Variables that were put into files. */
  readonly variables?: ReadonlyMap<string, string>;
  readonly notes: readonly string[];
  readonly problems: FileProblems;
}

const defaultTrialMs = 300_000;
const defaultCallMs = 30_000;
const defaultModelMs = 120_000;

/** Puts an eval of tasks together. Throws everything that is wrong with its files. */
export function assembleEval(parts: EvalParts, surroundings: Surroundings): LoadedConfig {
  const { environment, overrides } = surroundings;
  const { file, dir, tasks, problems } = parts;
  const spec = evalOf(parts);
  problems.add([...sameNames(spec.tasks), ...idleRubrics(spec)]);
  const secrets = collectSecrets({
    document: undefined,
    variables: parts.variables ?? new Map(),
    serverEnvironments: [
      ...tasks.variables,
      ...Object.values(parts.extensions?.declared ?? {}).flatMap(extensionVariables),
    ],
    overrides,
    environment,
    servers: [...serversOfEval(spec), ...tasks.servers],
    judge: parts.judge,
    agents: parts.agents,
  });
  problems.throwIfAny(secrets);
  const env: EnvironmentVariables = { ...environment, ...overrides };
  const place = file === undefined ? { dir } : { dir, file };
  const notes = [...parts.notes, ...tasks.notes];
  const extensionUses = maskedUses(tasks.extensionUses, secrets);
  return { eval: spec, ...place, env, overrides, secrets, notes, extensionUses };
}

function evalOf(parts: EvalParts): Eval {
  const { name, servers, agents, judge, tasks, trials, concurrency, trialMs, variants, seed } = parts;
  return withoutUndefined({
    name,
    servers,
    agents,
    tasks: tasks.tasks,
    judge,
    trials: trials ?? 1,
    concurrency,
    limits: { trialMs: trialMs ?? defaultTrialMs, callMs: defaultCallMs, modelMs: defaultModelMs },
    reporters: ["console"],
    taskServers: tasks.taskServers,
    variants: variants?.map((variant) => ({ name: variant, servers: tasks.variants[variant] ?? {} })),
    seed,
    extensionSettings: settingsOf(parts.extensions),
  });
}
