import { loadConfig } from "./config/load-config.ts";
import type { Config } from "./core/formats/config-schema.ts";
import type { RunResult } from "./core/report/result.ts";
import { prepare } from "./prepare.ts";
import { run } from "./run.ts";

/** What a caller of {@link evaluate} may ask for; the same as the flags of `mcpvals run`. */
export interface EvaluateOptions {
  /** Folder that relative paths start from. Default: the process's working folder. */
  readonly cwd?: string;
  /** Agents of the config, or model ids, instead of the config's own choice. */
  readonly agents?: readonly string[];
  /** Names or globs of the tasks to run. */
  readonly tasks?: readonly string[];
  /** Attempts of each task. */
  readonly trials?: number;
  /** Trials at once. */
  readonly concurrency?: number;
  /** Let a language model judge workflows too. */
  readonly llm?: boolean;
  /** Variables for the config, over those of the process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Longest that a trial may take, in milliseconds. */
  readonly timeoutMs?: number;
  /** Stop after the first trial that does not pass. */
  readonly bail?: boolean;
  /** Folder that keeps the runs, or false to keep nothing. Default: `.mcpvals/runs` below `cwd`. */
  readonly output?: string | false;
  /** Aborting ends the run in order; the result then has the verdict `interrupted`. */
  readonly signal?: AbortSignal;
}

/**
 * Evaluates MCP servers as a config says, and prints nothing.
 *
 * @param config Path of a config file or of its folder, or the config itself.
 * @returns The result document. Failures, errors and interruption are in it, not thrown.
 * @throws McpvalsError of kind `usage` for a config or option that is wrong; its `details.diagnostics` has every problem.
 */
export async function evaluate(config: string | Config, options: EvaluateOptions = {}): Promise<RunResult> {
  const cwd = options.cwd ?? process.cwd();
  const loaded = await loadConfig({
    source: config,
    cwd,
    env: options.env ?? {},
    agents: options.agents ?? [],
    ...(options.llm === true ? { judge: true } : {}),
  });
  const { tasks, trials, concurrency, timeoutMs } = options;
  const { result, failures } = await run(prepare(loaded, { tasks, trials, concurrency, timeoutMs }), {
    cwd,
    bail: options.bail ?? false,
    ...(options.output === undefined ? {} : { output: options.output }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  const [failure] = failures;
  if (failure !== undefined) throw failure.error;
  return result;
}
