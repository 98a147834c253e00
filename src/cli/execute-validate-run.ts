import { load } from "../config/load.ts";
import type { LoadedConfig } from "../config/load-config.ts";
import { McpvalsError } from "../core/errors/error.ts";
import { proofExitCode, type ProofTrial, wasCutOff } from "../core/report/proof.ts";
import type { Json } from "../core/formats/model.ts";
import { createRedactor } from "../core/trace/redact.ts";
import { prepare } from "../prepare.ts";
import { createStyle } from "../reporters/format/style.ts";
import { type ProofEnd, proofLines, untouchedWarning } from "../reporters/proof.ts";
import type { ConfigQuestion } from "./config-command.ts";
import { type ExtensionRunFlags, extensionOptions } from "./extension-options.ts";
import { abortOnInterrupt } from "./interrupt.ts";
import { proveTasks } from "./prove-tasks.ts";
import { stdoutOutput, writeError, writeJson, writeOut } from "./terminal.ts";
import { workingFolder } from "./working-folder.ts";
import { writeNotes } from "./write-notes.ts";

/** How `validate --run` is carried out. */
export interface ValidateRunFlags extends ExtensionRunFlags {
  readonly concurrency?: number;
  readonly output?: string;
  readonly strict?: boolean;
  readonly timeout?: number;
}

const usualConcurrency = 4;

/**
 * Carries out `mcpvals validate --run` and gives the exit code: 0 when all tasks that could be tried are proven, 1 when one
 * is not, 3 when something broke or nothing could be tried, 130 when it was interrupted. Throws McpvalsError of kind
 * `usage` for files that are wrong.
 */
export async function executeValidateRun(
  { load: options, filters, json }: ConfigQuestion,
  flags: ValidateRunFlags,
): Promise<number> {
  const started = performance.now();
  if ((options.agents ?? []).length > 0)
    throw new McpvalsError("usage/invalid-option", "--run proves tasks with the agents null and oracle", {
      hint: "Leave out --agent, or leave out --run to check the files with that agent.",
    });
  using interrupt = abortOnInterrupt(flags.output);
  const { signal } = interrupt;
  const cwd = workingFolder();
  const loaded = portableOnly(
    prepare(await load({ ...options, cwd, agents: ["null", "oracle"], signal }), {
      ...filters,
      timeoutMs: flags.timeout,
    }),
  );
  if (!json) {
    writeNotes(loaded);
    if (stdoutOutput().isTerminal) writeError(`Proving ${loaded.eval.tasks.length} tasks …`);
  }
  const proofs = await proveTasks(loaded, {
    cwd,
    output: flags.output ?? false,
    strict: flags.strict ?? false,
    allowOutside: options.allowOutside ?? false,
    concurrency: flags.concurrency ?? usualConcurrency,
    signal,
    ...extensionOptions(flags),
  });
  const end = { proofs, durationMs: performance.now() - started, interrupted: signal.aborted };
  print(end, { json, loaded });
  return proofExitCode(proofs, end);
}

/** Only tasks from files of their own can be proven. */
function portableOnly(loaded: LoadedConfig): LoadedConfig {
  const tasks = loaded.eval.tasks.filter((task) => task.form === "task");
  const others = loaded.eval.tasks.length - tasks.length;
  if (tasks.length === 0)
    throw new McpvalsError("usage/no-match", "there is no task from a file of its own to be proven", {
      hint: "Name files of kind Task, or an Eval or config that has such tasks; leave out --run to only check files.",
    });
  if (others > 0)
    writeError(`note: ${others} workflows and tool tests are left out; only tasks can be proven`);
  return { ...loaded, eval: { ...loaded.eval, tasks } };
}

interface Printing {
  readonly json: boolean;
  readonly loaded: LoadedConfig;
}

function print(end: ProofEnd, { json, loaded }: Printing): void {
  const redact = createRedactor(loaded.secrets);
  if (json) return writeJson(redact(report(end)), 2);
  const { isTerminal, colors, columns } = stdoutOutput();
  const page = { style: createStyle(colors), width: isTerminal ? columns() : Infinity };
  writeOut(redact(proofLines(end, page).join("\n")));
}

function report({ proofs, interrupted }: ProofEnd): Json {
  return {
    proven: proofExitCode(proofs, { interrupted }) === 0,
    ...(interrupted ? { interrupted } : {}),
    tasks: proofs.map(({ task, variant, status, problems, nothing, repeating, oracle }) => ({
      task: task.name,
      ...(variant === undefined ? {} : { variant }),
      file: task.portable?.file ?? null,
      status,
      null: trialReport(nothing),
      ...(repeating === undefined ? {} : { repeating: trialReport(repeating) }),
      oracle: trialReport(oracle),
      problems: problems.map((problem) => ({ ...problem })),
    })),
  };
}

function trialReport(trial: ProofTrial | undefined): Json {
  if (trial === undefined) return null;
  const { verdict, grades, error } = trial.result;
  const warnings = [...(trial.result.warnings ?? []), ...trial.untouched.map(untouchedWarning)];
  return {
    verdict,
    reasons:
      error === undefined ? grades.map(({ grader, reason }) => `${grader}: ${reason}`) : [error.message],
    restored: trial.differences === undefined || wasCutOff(trial) ? null : trial.differences.length === 0,
    ...(warnings.length === 0 ? {} : { warnings }),
  };
}
