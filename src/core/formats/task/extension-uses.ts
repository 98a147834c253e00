import type { SourceLocation } from "../../errors/error.ts";
import type { ExtensionPhase } from "../extension/manifest.ts";
import { asObject } from "../lenient.ts";
import type { JsonObject } from "../model.ts";
import type { Locate } from "../problem.ts";
import type { StepView } from "./view-steps.ts";
import type { TaskView } from "./view-task.ts";
import { walkViews } from "./walk-views.ts";

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
export function extensionUses({ steps }: TaskView, locate: Locate): readonly ExtensionUse[] {
  return [...walkViews([...steps.setup, ...steps.verify, ...steps.cleanup])].flatMap((view) => {
    const text = operationOf(view);
    const location = locate({ path: view.bodyPath, at: "key" });
    return text === undefined
      ? []
      : [{ step: view.id, text, ...(location === undefined ? {} : { location }) }];
  });
}

function operationOf({ kind, body, first, rest }: StepView): string | undefined {
  if (kind === "operation") return `${first}.${rest}`;
  const { package: extension, action } = asObject(body);
  return kind === "extension" ? `${String(extension)}.${String(action)}` : undefined;
}
