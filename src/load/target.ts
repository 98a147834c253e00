import { basename, resolve } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { serverSchema } from "../core/formats/config/server.ts";
import { assembleEval, type LoadedConfig, noTasks } from "./assemble-eval.ts";
import {
  environment as readEnvironment,
  type EnvironmentVariables,
  type LoadContext,
} from "./environment.ts";
import { load } from "./load.ts";
import { FileProblems } from "./problems.ts";
import { serverBuilder } from "./servers.ts";

/** Which servers a command looks at. */
export interface TargetOptions {
  /** A command with its arguments, or a URL, or a file with servers; empty: the config found upwards. */
  readonly target: readonly string[];
  /** Whether `target` is a command line. */
  readonly isCommand: boolean;
  readonly cwd: string;
  /** Variables over those of the environment. */
  readonly env: EnvironmentVariables;
  readonly signal: AbortSignal;
}

/** Loads the servers of a target; the eval has no tasks. Throws McpvalsError of kind `usage`. */
export async function loadTarget({
  target,
  isCommand,
  cwd,
  env,
  signal,
}: TargetOptions): Promise<LoadedConfig> {
  if (!isCommand) return load({ sources: target, cwd, env, signal, lookOnly: true });
  const [command, ...args] = target;
  if (command === undefined)
    throw new McpvalsError("usage/invalid-option", "no command was given", { hint: "Write it after --." });
  const loadContext: LoadContext = {
    environment: readEnvironment(),
    overrides: env,
    cwd,
    signal,
    agents: [],
    lookOnly: false,
    allowOutside: false,
    timeoutMs: 30_000,
    mcpConfig: undefined,
  };
  const build = serverBuilder({ dir: cwd, loadContext });
  const server = build("server", serverSchema.parse({ transport: "stdio", command, args }));
  return assembleEval(
    {
      spec: { name: basename(resolve(cwd)), servers: { server }, agents: [] },
      dir: cwd,
      tasks: noTasks,
      variables: new Map(),
      notes: [],
      problems: new FileProblems(),
    },
    loadContext,
  );
}
