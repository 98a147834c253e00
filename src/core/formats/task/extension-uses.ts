import type { SourceLocation } from "../../errors/error.ts";
import type { ExtensionPhase } from "../extension/manifest.ts";
import { asText, isJsonObject, withoutUndefined } from "../json.ts";
import type { ExtensionSpec, JsonObject } from "../model.ts";
import type { Locate } from "../problem.ts";
import type { JoinedExtensions } from "./join-extensions.ts";
import { operationArgs } from "./step-forms.ts";
import type { StepView } from "./view-steps.ts";
import { phasedViews, type TaskView } from "./view-task.ts";

/** A step that needs an extension. */
export interface ExtensionUse {
  /** The step's id. */
  readonly step: string;
  readonly phase: ExtensionPhase;
  /** Name of the extension among those of the task. */
  readonly extension: string;
  readonly operation: string;
  /** As written, with templates. */
  readonly args: JsonObject;
  /** Where its type stands. */
  readonly location?: SourceLocation;
  /** The lines around it, without anything secret. */
  readonly frame?: string;
}

/** The steps of a task, those inside others included, that are operations of extensions. */
export function extensionUses(task: TaskView, locate: Locate): readonly ExtensionUse[] {
  return phasedViews(task).flatMap(({ view, phase }) => {
    const operation = operationOf(view);
    if (operation === undefined) return [];
    const location = locate({ path: view.bodyPath, at: "key" });
    return [withoutUndefined({ step: view.id, phase, ...operation, location })];
  });
}

function operationOf({
  kind,
  body,
  first,
  rest,
}: StepView): Pick<ExtensionUse, "extension" | "operation" | "args"> | undefined {
  const own = isJsonObject(body) ? body : {};
  if (kind === "operation") return { extension: first, operation: rest, args: operationArgs(own) };
  if (kind !== "extension") return undefined;
  const { package: extension, action: operation, args } = own;
  return {
    extension: asText(extension) ?? "",
    operation: asText(operation) ?? "",
    args: isJsonObject(args) ? args : {},
  };
}

/** The extensions that steps use, by what they name them by; undefined without any. */
export function usedExtensions(
  uses: readonly ExtensionUse[],
  { specOf }: Pick<JoinedExtensions, "specOf">,
): Readonly<Record<string, ExtensionSpec>> | undefined {
  const names = [...new Set(uses.map(({ extension }) => extension))];
  const specs = names.flatMap((name) => {
    const spec = specOf(name);
    return spec === undefined ? [] : [[name, spec] as const];
  });
  return specs.length === 0 ? undefined : Object.fromEntries(specs);
}
