import { load } from "../load/load.ts";
import { exitCode } from "../core/report/summarize.ts";
import { visibleText } from "../core/text/visible-text.ts";
import { prepare } from "../run/prepare.ts";
import { run } from "../run/run.ts";
import type { Eval } from "../core/formats/model.ts";
import { unprovenTasks } from "../store/proofs.ts";
import { loadOptions, type RunFlags, taskFilters } from "./flags.ts";
import { extensionOptions } from "./extension-options.ts";
import { abortOnInterrupt } from "./interrupt.ts";
import { openReporters } from "./open-reporters.ts";
import { workingFolder, writeError, writeNotes } from "./terminal.ts";

/** Carries out `mcpvals run` and gives the exit code. Throws McpvalsError of kind `usage` before anything starts. */
export async function executeRun(sources: readonly string[], flags: RunFlags): Promise<number> {
  const options = loadOptions(sources, flags);
  using interrupt = abortOnInterrupt(flags.output);
  const loaded = await load({
    ...options,
    cwd: workingFolder(),
    signal: interrupt.signal,
    ...(flags.llm === true ? { judge: true } : {}),
  });
  writeNotes(loaded);
  const prepared = prepare(loaded, {
    ...taskFilters(flags),
    trials: flags.trials,
    concurrency: flags.concurrency,
    timeoutMs: flags.timeout,
  });
  for (const note of unprovenNotes(prepared.eval)) writeError(visibleText(`note: ${note}`));
  const names = flags.reporter ?? prepared.eval.reporters;
  const outcome = await run(prepared, {
    cwd: workingFolder(),
    reporters: openReporters(names.length === 0 ? ["console"] : names),
    signal: interrupt.signal,
    bail: flags.bail ?? false,
    strict: flags.strict ?? false,
    allowOutside: flags.allowOutside ?? false,
    ...extensionOptions(flags),
    ...(flags.output === undefined ? {} : { output: flags.output }),
  });
  for (const { reporter, error } of outcome.failures) {
    writeError(visibleText(`${reporter}: ${error instanceof Error ? error.message : String(error)}`));
  }
  const code = exitCode(outcome.result.verdict);
  if (code !== 0 || outcome.failures.length === 0) return code;
  writeError("Everything passed, but not all of it could be written: exit 3.");
  return 3;
}

const mostNamed = 5;

/** Names the tasks that no `validate --run` has seen to fail with an agent that does nothing. */
function unprovenNotes({ tasks, agents }: Eval): readonly string[] {
  if (!agents.some(({ type }) => type === "model" || type === "acp" || type === "command")) return [];
  const unproven = unprovenTasks(
    workingFolder(),
    tasks.filter(({ form, turns }) => form === "task" && turns.length > 0),
  );
  if (unproven.length === 0) return [];
  const names = unproven.slice(0, mostNamed).map(({ name }) => name);
  const rest = unproven.length - names.length;
  return [
    `never seen to fail when the agent does nothing: ${names.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}; ` +
      "`mcpvals validate --run` tries that",
  ];
}
