import { type Diagnostic, McpvalsError } from "../core/errors/error.ts";
import { settingLocation } from "../core/formats/graders.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import type { GraderSpec } from "../core/formats/model.ts";
import type { PrepareContext } from "../core/grade/grader.ts";
import { environmentOf, runProgram } from "../graders/run-program.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { readNamedFile } from "../graders/workspace-files.ts";
import type { LoadedConfig } from "../load/assemble-eval.ts";
import { FileProblems } from "../load/read/document.ts";
import { findProgram } from "../process/environment.ts";

type Loaded = Pick<LoadedConfig, "eval" | "env" | "secrets">;

/** Graders that are tried at once. */
const width = 4;

/**
 * Tries the settings of the graders of all tasks, each once. Throws one McpvalsError of kind `usage` for all that are wrong. What the
 * environment is to blame for, such as a program that is not there, is left to the trials.
 */
export async function prepareGraders(
  { eval: spec, env, secrets }: Loaded,
  { validateSchema, signal }: Pick<PrepareContext, "validateSchema"> & { readonly signal: AbortSignal },
): Promise<void> {
  const declared = spec.tasks.flatMap(({ graders = [] }) => graders);
  if (declared.length === 0) return;
  const { graderKinds } = await import("../core/grade/kinds.ts");
  const context: Omit<PrepareContext, "dir"> = {
    validateSchema,
    runProgram: (program) => runProgram(program, { env, signal }),
    findProgram: ({ command, ...program }) =>
      findProgram(command, { env: environmentOf(program, env), cwd: program.cwd }),
    readFile: readNamedFile,
  };
  const distinct = new Map(declared.map((each) => [JSON.stringify({ ...each, name: "" }), each]));
  const waiting = [...distinct.values()].entries();
  const diagnostics: Diagnostic[][] = [];
  const work = async (): Promise<void> => {
    for (const [index, grader] of waiting) {
      const { dir, config, type } = grader;
      const tried = Object.entries(graderKinds[type]?.prepare?.(config, { ...context, dir }) ?? {});
      const outcomes = await Promise.allSettled(tried.map(([, outcome]) => outcome));
      diagnostics[index] = outcomes.flatMap((outcome, number) => {
        if (outcome.status === "fulfilled") return [];
        const error: unknown = outcome.reason;
        if (!(error instanceof McpvalsError) || error.kind === "interrupted") throw error;
        const isWrong = error.code === "grader/broken" || error.code === "grader/timeout";
        return isWrong ? [diagnosticOf(grader, tried[number]?.[0] ?? "", error)] : [];
      });
    }
  };
  await Promise.all(Array.from({ length: width }, work));
  const problems = new FileProblems();
  // In the order of the files.
  problems.add(diagnostics.flat());
  problems.throwIfAny(secrets);
}

/** `key` is that of the setting that is wrong. */
function diagnosticOf(grader: GraderSpec, key: string, { code, message, details }: McpvalsError): Diagnostic {
  const isLate = code === "grader/timeout";
  return withoutUndefined({
    code: "config/invalid-value" as const,
    message: `the grader ${JSON.stringify(grader.name)}: ${isLate ? "when it was tried before the run, " : ""}${message}`,
    location: settingLocation(grader, key),
    hint: isLate
      ? "Its code must not wait while it is loaded. If it needs longer, raise the timeout of the grader."
      : details.hint,
  });
}

/** {@link prepareGraders} for files that are only checked. */
export async function checkGraders(loaded: Loaded): Promise<void> {
  await using validator = new SchemaValidator();
  const { signal } = new AbortController();
  await prepareGraders(loaded, { validateSchema: validator.validate.bind(validator), signal });
}
