import { load } from "./load/load.ts";
import { McpvalsError } from "./core/errors/error.ts";
import type { Config } from "./core/formats/config/config-schema.ts";
import type { RunResult } from "./core/report/result.ts";
import { checkEvaluateOptions, type EvaluateOptions } from "./evaluate-options.ts";
import { prepare, type Selection } from "./run/prepare.ts";
import { run } from "./run/run.ts";

/**
 * Evaluates MCP servers as a config says, and prints nothing.
 *
 * @param sources A config; or the path of a file, folder or glob, or a list of paths: one config, one Eval, or tasks.
 * @returns The result document. Failures, errors and interruption are in it, not thrown.
 * @throws McpvalsError of kind `usage` for a config or option that is wrong; its `details.diagnostics` has every problem.
 */
export async function evaluate(
  sources: string | readonly string[] | Config,
  options: EvaluateOptions = {},
): Promise<RunResult> {
  checkSources(sources);
  checkEvaluateOptions(options);
  const cwd = options.cwd ?? process.cwd();
  const loaded = await load({
    sources: typeof sources === "string" ? [sources] : sources,
    cwd,
    env: options.env ?? {},
    agents: options.agents ?? [],
    ...(options.llm === true ? { judge: true } : {}),
    judgeModel: options.judge,
    mcpConfig: options.mcpConfig,
    allowOutside: options.allowOutside ?? false,
  });
  const { result, failures } = await run(prepare(loaded, selectionOf(options)), {
    cwd,
    strict: options.strict ?? false,
    allowOutside: options.allowOutside ?? false,
    bail: options.bail ?? false,
    frozen: options.frozen ?? false,
    ...(options.releasesUrl === undefined ? {} : { releasesUrl: options.releasesUrl }),
    ...(options.output === undefined ? {} : { output: options.output }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  const [failure] = failures;
  if (failure !== undefined) throw failure.error;
  return result;
}

function selectionOf(options: EvaluateOptions): Selection {
  const { tasks, tags, labels, difficulties, variants, trials, concurrency, timeoutMs } = options;
  return { tasks, tags, labels, difficulties, variants, trials, concurrency, timeoutMs };
}

/** Without this, a config that is undefined by mistake would be the nearest file. */
function checkSources(sources: unknown): void {
  if (
    Array.isArray(sources) &&
    (sources.length === 0 || !sources.every((each) => typeof each === "string"))
  ) {
    throw new McpvalsError("usage/invalid-option", "evaluate takes a list of one or more paths");
  }
  if (typeof sources === "string" || typeof sources === "object") return;
  throw new McpvalsError(
    "usage/invalid-option",
    `evaluate takes a config or the path of one, not a value of type ${typeof sources}`,
  );
}
