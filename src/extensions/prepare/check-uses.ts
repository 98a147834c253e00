import type { Diagnostic } from "../../core/errors/error.ts";
import type { ExtensionManifest, OperationDeclaration } from "../../core/formats/extension/manifest.ts";
import { suggestion } from "../../core/formats/did-you-mean.ts";
import type { ExtensionSpec, Task } from "../../core/formats/model.ts";
import type { ExtensionUse } from "../../core/formats/task/extension-uses.ts";
import { checkArguments, type ValidateSchema } from "./check-arguments.ts";
import { tellArguments, type Wrong } from "./tell-arguments.ts";

export interface UsesToCheck {
  readonly tasks: readonly Task[];
  /** Steps that need extensions, by the names of their tasks. */
  readonly uses: ReadonlyMap<string, readonly ExtensionUse[]>;
  /** What an extension says of itself; undefined when that is not known yet. */
  readonly manifestOf: (spec: ExtensionSpec) => ExtensionManifest | undefined;
  readonly validateSchema: ValidateSchema;
}

/** Everything that is wrong with the steps of tasks, as far as the manifests of their extensions are known. */
export async function checkUses(work: UsesToCheck): Promise<readonly Diagnostic[]> {
  const checked = await Promise.all(
    work.tasks.flatMap((task) => (work.uses.get(task.name) ?? []).map((use) => checkUse(use, task, work))),
  );
  return checked.flat();
}

async function checkUse(
  use: ExtensionUse,
  task: Task,
  { manifestOf, validateSchema }: UsesToCheck,
): Promise<readonly Diagnostic[]> {
  const extensions = task.portable?.extensions ?? {};
  const spec = Object.hasOwn(extensions, use.extension) ? extensions[use.extension] : undefined;
  const manifest = spec === undefined ? undefined : manifestOf(spec);
  if (manifest === undefined) return [];
  const wrong = await problemsOf(use, { manifest, from: spec?.package ?? "" }, validateSchema);
  return wrong.map(({ message, hint }) => ({
    code: "task/extension",
    message: `step ${use.step} of the task ${JSON.stringify(task.name)}: ${message}`,
    hint,
    ...placeOf(use, task),
  }));
}

function placeOf({ location, frame }: ExtensionUse, task: Task): Pick<Diagnostic, "location" | "frame"> {
  if (location === undefined) return task.location === undefined ? {} : { location: task.location };
  return { location, ...(frame === undefined ? {} : { frame }) };
}

async function problemsOf(
  use: ExtensionUse,
  { manifest: { name, operations }, from }: { readonly manifest: ExtensionManifest; readonly from: string },
  validateSchema: ValidateSchema,
): Promise<readonly Wrong[]> {
  const { operation } = use;
  const called = `${use.extension}.${operation}`;
  const declared = Object.hasOwn(operations, operation) ? operations[operation] : undefined;
  if (declared === undefined) {
    // Under another name it may be another one than the reader believes.
    const which = name === use.extension ? "" : `, which is ${from},`;
    const message = `the extension ${use.extension}${which} has no operation ${JSON.stringify(operation)}`;
    return [{ message, hint: suggestion(operation, Object.keys(operations), "operations") }];
  }
  const wrong = await checkArguments(declared.params, use.args, validateSchema);
  return [
    ...phaseProblems(called, use, declared),
    ...tellArguments(wrong, { called, args: use.args, params: declared.params }),
  ];
}

function phaseProblems(called: string, { phase }: ExtensionUse, { phases }: OperationDeclaration): Wrong[] {
  if (phases.includes(phase)) return [];
  return [{ message: `${called} cannot be used in ${phase}`, hint: `It is for ${phases.join(" and ")}.` }];
}
