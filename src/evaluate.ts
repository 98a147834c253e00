import { loadConfig } from "./config/load-config.ts";
import { McpvalsError } from "./core/errors/error.ts";
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
  checkSource(config);
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

/** Without this, a config that is undefined by mistake would be the nearest file. */
function checkSource(config: unknown): void {
  if (typeof config === "string" || typeof config === "object") return;
  throw new McpvalsError(
    "usage/invalid-option",
    `evaluate takes a config or the path of one, not a value of type ${typeof config}`,
  );
}
