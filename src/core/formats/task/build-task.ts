import { type Expression, parseTemplate } from "../../templates/parse-template.ts";
import { withoutUndefined } from "../json.ts";
import type { Json, PortableTask, Requirement, SolutionAction, Task } from "../model.ts";
import type { Step } from "../step.ts";
import type { ParseTaskOptions } from "./task-options.ts";
import type { ParsedTaskFile } from "./task-schema.ts";
import type { TaskView } from "./view-task.ts";

/** The parts of a task that are read by themselves. */
export interface TaskParts {
  readonly setup: readonly Step[];
  readonly verify: readonly Step[];
  readonly cleanup: readonly Step[];
  readonly solution: readonly SolutionAction[];
  /** What the user says, turn by turn. */
  readonly turns: readonly string[];
}

interface Context {
  readonly view: TaskView;
  readonly options: ParseTaskOptions;
  /** Those that its steps use. */
  readonly extensions: PortableTask["extensions"] | undefined;
}

/** Makes a task of a file that is valid. */
export function buildTask(file: ParsedTaskFile, parts: TaskParts, context: Context): Task {
  const { view, options } = context;
  const { metadata, spec } = file;
  return withoutUndefined({
    name: metadata.name,
    form: "task" as const,
    description: metadata.description,
    servers: view.servers.started,
    turns: parts.turns.map((user) => ({ user })),
    expectTools: [],
    verify: parts.verify,
    parallel: false,
    location: options.locate({ path: ["metadata", "name"], at: "value" }),
    elicitation: spec.elicitation?.map(withoutUndefined),
    portable: portablePart(file, parts, context),
  });
}

function portablePart(
  { metadata, spec }: ParsedTaskFile,
  { setup, cleanup, solution, turns }: TaskParts,
  { view, options, extensions }: Context,
): PortableTask {
  return withoutUndefined({
    format: "mcp-eval/v1" as const,
    file: options.file,
    dir: options.dir,
    env: spec.env,
    setup,
    cleanup,
    extensions,
    solution: spec.solution === undefined ? undefined : solution,
    fixtures: spec.fixtures,
    requires: spec.requires.flatMap(requirementOf),
    difficulty: metadata.difficulty,
    tags: metadata.tags,
    labels: metadata.labels,
    timeoutMs: metadata.timeout ?? spec.limits.timeout,
    cleanupTimeoutMs: spec.limits.cleanupTimeout,
    stateProbe: metadata.stateProbe,
    randomPorts: [...new Set([...randomPorts([view.document, ...turns]), ...extensionPorts(extensions)])],
    assertions: [],
    inheritEnv: options.inheritEnv,
  });
}

function requirementOf(entry: ParsedTaskFile["spec"]["requires"][number]): Requirement[] {
  const { command, env, server, platform, judge } = entry;
  if (command !== undefined) return [{ kind: "command", name: command }];
  if (env !== undefined) return [{ kind: "env", name: env }];
  if (server !== undefined) return [{ kind: "server", name: server }];
  if (platform !== undefined) return [{ kind: "platform", name: platform }];
  return judge === undefined ? [] : [{ kind: "judge" }];
}

/** Names that `{random.port}` is used with in what extensions are started with. */
export function extensionPorts(extensions: PortableTask["extensions"] = {}): readonly string[] {
  return randomPorts(Object.values(extensions).flatMap(({ config, env }) => [config, env]));
}

/** The names that `{random.port}` is used with anywhere in the values; "" for the plain form. */
function randomPorts(values: readonly Json[]): string[] {
  const names = values.flatMap((value) => [...textsIn(value)]).flatMap(portsIn);
  return [...new Set(names)];
}

function* textsIn(value: Json): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null) {
    for (const member of Object.values(value)) yield* textsIn(member);
  }
}

function portsIn(text: string): string[] {
  if (!text.includes("random")) return [];
  return parseTemplate(text, (root) => root === "random")
    .filter((part): part is Expression => typeof part === "object")
    .filter(({ names }) => names.join(".") === "port")
    .map(({ variant = "" }) => variant);
}
