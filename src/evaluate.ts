import { loadConfig } from "./config/load-config.ts";
import type { Config } from "./core/formats/config/config-schema.ts";
import type { RunResult } from "./core/report/result.ts";
import { checkEvaluateOptions, type EvaluateOptions } from "./evaluate-options.ts";
import { prepare } from "./prepare.ts";
import { run } from "./run.ts";

/**
 * Evaluates MCP servers as a config says, and prints nothing.
 *
 * @param config Path of a config file or of its folder, or the config itself.
 * @returns The result document. Failures, errors and interruption are in it, not thrown.
 * @throws McpvalsError of kind `usage` for a config or option that is wrong; its `details.diagnostics` has every problem.
 */
export async function evaluate(config: string | Config, options: EvaluateOptions = {}): Promise<RunResult> {
  checkEvaluateOptions(options);
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
