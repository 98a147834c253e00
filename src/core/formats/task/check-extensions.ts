import { packageProblem } from "../extension/extension-table-schema.ts";
import { parsePackageRef } from "../extension/package-ref.ts";
import { suggestion } from "../did-you-mean.ts";
import { isJsonObject, type KeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import { checkFilePath } from "./check-file-path.ts";
import { type ImportView, isGivenByEval, isWord } from "./join-extensions.ts";
import type { ParseTaskOptions, TaskFiles } from "./task-options.ts";
import { stepPhases, type TaskView } from "./view-task.ts";
import type { StepView } from "./view-steps.ts";
import { walkViews } from "./walk-views.ts";

type Options = Pick<ParseTaskOptions, "extensions" | "files">;

/** Checks where the extensions come from that a task imports, or that its steps name by their packages. */
export function checkExtensions(view: TaskView, options: Options): Problem[] {
  const steps = stepPhases.flatMap((phase) => [...walkViews(view.steps[phase])]);
  return [
    ...view.importEntries.flatMap((each) => checkImport(each, options)),
    ...steps.flatMap((step) => checkStepPackage(step, view, options)),
    ...steps.flatMap((step) => checkAmbiguous(step, view)),
  ];
}

function checkImport(entry: ImportView, options: Options): Problem[] {
  const { package: written, as, path } = entry;
  const at = [...path, "package"];
  const isGiven = isGivenByEval(entry, options);
  if (!isWord(written)) return checkPackage(written, at, { ...options, isGiven });
  // Where the eval is not known, it may have an extension of that name.
  if (isGiven || options.extensions === undefined) return [];
  const hint = `Write mcpvals:NAME, github.com/ORG/REPO@VERSION, npm:NAME@VERSION or a path such as ./NAME, or declare ${as} in the extensions of the eval.`;
  return packageProblem(written, at).map((problem) => ({ ...problem, hint }));
}

/** A package that looks like a name has to be one that there is. */
function checkStepPackage(
  { kind, body, bodyPath }: StepView,
  { aliases }: TaskView,
  options: Options,
): Problem[] {
  const name = kind === "extension" && isJsonObject(body) ? body["package"] : undefined;
  if (typeof name !== "string" || name.trim() === "" || aliases.includes(name)) return [];
  const path = [...bodyPath, "package"];
  if (!isWord(name)) return checkPackage(name, path, { ...options, isGiven: false });
  const message = `no import is named ${JSON.stringify(name.slice(0, 80))}`;
  const hint = suggestion(name, aliases, "imports");
  return [{ code: "config/unknown-reference", message, path, at: "value", hint }];
}

/** Steps that could mean an extension of the eval as well as a server. */
function checkAmbiguous({ kind, first, bodyPath }: StepView, { imports, servers }: TaskView): Problem[] {
  if (kind !== "operation" || imports.includes(first) || !servers.known.includes(first)) return [];
  const message = `an extension of the eval and a server are both named ${JSON.stringify(first)}`;
  const hint = "Import the extension under another name, or write the step as mcp or extension.";
  return [{ code: "config/duplicate-name", message, path: bodyPath, at: "key", hint }];
}

/** A package that is a path stays in the task's folder; it has to be there, unless the eval gives another one. */
function checkPackage(
  written: string,
  path: KeyPath,
  { files, isGiven }: { readonly files: TaskFiles; readonly isGiven: boolean },
): Problem[] {
  const parsed = parsePackageRef(written);
  if (!parsed.ok) return isGiven ? [] : packageProblem(written, path);
  if (parsed.ref.kind !== "path") return [];
  const wanted = isGiven ? "inside" : "any";
  return checkFilePath(parsed.ref.path, path, { files: withHome(files), wanted });
}

/** The home folder is outside of a task's; where that is allowed, nothing is known of what is in it. */
function withHome(files: TaskFiles): TaskFiles {
  const look: TaskFiles["look"] = (path) => {
    if (!path.startsWith("~")) return files.look(path);
    return files.look("..") === "outside" ? "outside" : "file";
  };
  return { ...files, look };
}
