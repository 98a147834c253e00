import { type Diagnostic, McpvalsError } from "../core/errors/error.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import type { GraderSpec } from "../core/formats/model.ts";
import type { PrepareContext } from "../core/grade/grader.ts";
import { runProgram } from "../graders/run-program.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { readNamedFile } from "../graders/workspace-files.ts";
import type { LoadedConfig } from "../load/assemble-eval.ts";
import { FileProblems } from "../load/problems.ts";

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
    readFile: readNamedFile,
  };
  const distinct = new Map(declared.map((each) => [JSON.stringify({ ...each, name: "" }), each]));
  const waiting = [...distinct.values()].entries();
  const diagnostics: Diagnostic[] = [];
  const work = async (): Promise<void> => {
    for (const [index, grader] of waiting) {
      const { dir, config } = grader;
      try {
        await graderKinds[grader.type]?.prepare?.(config, { ...context, dir });
      } catch (error) {
        if (!(error instanceof McpvalsError)) throw error;
        if (error.code === "grader/broken" || error.code === "grader/timeout")
          diagnostics[index] = diagnosticOf(grader, error);
        else if (error.kind === "interrupted") throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: width }, work));
  const problems = new FileProblems();
  // In the order of the files, without those that are as they should be.
  problems.add(Object.values(diagnostics));
  problems.throwIfAny(secrets);
}

function diagnosticOf({ name, location }: GraderSpec, { code, message, details }: McpvalsError): Diagnostic {
  const isLate = code === "grader/timeout";
  return withoutUndefined({
    code: "config/invalid-value" as const,
    message: `the grader ${JSON.stringify(name)}: ${isLate ? "when it was tried before the run, " : ""}${message}`,
    location,
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
