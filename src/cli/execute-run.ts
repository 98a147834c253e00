import { loadConfig } from "../config/load-config.ts";
import { McpvalsError } from "../core/errors/error.ts";
import { exitCode } from "../core/report/summarize.ts";
import { prepare } from "../prepare.ts";
import { run } from "../run.ts";
import type { RunFlags } from "./commands/run.ts";
import { abortOnInterrupt } from "./interrupt.ts";
import { openReporters } from "./open-reporters.ts";
import { writeError } from "./terminal.ts";

/** Carries out `mcpvals run` and gives the exit code. Throws McpvalsError of kind `usage` before anything starts. */
export async function executeRun(file: string | undefined, flags: RunFlags): Promise<number> {
  if (file !== undefined && flags.config !== undefined && file !== flags.config) {
    throw new McpvalsError(
      "usage/invalid-option",
      `two configs are named: ${file} and --config ${flags.config}`,
    );
  }
  using interrupt = abortOnInterrupt();
  const loaded = await loadConfig({
    source: file ?? flags.config,
    cwd: process.cwd(),
    env: flags.env ?? {},
    agents: flags.agent ?? [],
    ...(flags.llm === true ? { judge: true } : {}),
  });
  const prepared = prepare(loaded, {
    tasks: flags.task,
    trials: flags.trials,
    concurrency: flags.concurrency,
    timeoutMs: flags.timeout,
  });
  const names = flags.reporter ?? prepared.eval.reporters;
  const outcome = await run(prepared, {
    cwd: process.cwd(),
    reporters: openReporters(names.length === 0 ? ["console"] : names),
    signal: interrupt.signal,
    bail: flags.bail ?? false,
    ...(flags.output === undefined ? {} : { output: flags.output }),
  });
  for (const { reporter, error } of outcome.failures) {
    writeError(`${reporter}: ${error instanceof Error ? error.message : String(error)}`);
  }
  const code = exitCode(outcome.result.verdict);
  return code === 0 && outcome.failures.length > 0 ? 3 : code;
}
