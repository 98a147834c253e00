import type { Diagnostic } from "../../errors/error.ts";
import { isJsonObject, type KeyPath, withoutUndefined } from "../json.ts";
import type { Json } from "../model.ts";
import { inVariable } from "../../templates/places.ts";
import { checkText, type DeclaredOutputs, type TaskNames, type TextScope } from "./check-text.ts";
import { checkPlaces } from "./check-untrusted.ts";
import type { ExtensionUse } from "./extension-uses.ts";
import type { JoinedExtensions } from "./join-extensions.ts";

export interface SettingsContext {
  /** Of the task, for messages. */
  readonly task: string;
  readonly joined: Pick<JoinedExtensions, "entryOf">;
  readonly names: TaskNames;
  /** What steps give, by their ids. */
  readonly outputs: ReadonlyMap<string, DeclaredOutputs>;
}

/**
 * Checks the templates in what the eval says that the extensions of a task are started with: which names there are is for
 * each task to say. A process is started by the first operation, so that the agent's output is not there for one of setup.
 */
export function checkSettings(
  uses: readonly ExtensionUse[],
  { task, joined, names, outputs }: SettingsContext,
): Diagnostic[] {
  const early = new Set(
    uses.flatMap(({ phase, extension }) => (phase === "setup" ? [joined.entryOf(extension)?.name] : [])),
  );
  const entries = new Map(
    uses.flatMap(({ extension }) => {
      const entry = joined.entryOf(extension);
      return entry === undefined ? [] : [[entry.name, entry.declared] as const];
    }),
  );
  return [...entries].flatMap(([name, { config, env, location }]) => {
    const absent = early.has(name) ? { agent: beforeAgent } : {};
    const scope: TextScope = { names, absent, earlier: outputs, locals: new Map() };
    const found = textsIn({ config, env }, ["extensions", name]).flatMap((each) => [
      ...checkText(each.text, each.path, scope),
      ...(each.path[2] === "env" ? checkPlaces(each, scope.locals, inVariable(String(each.path[3]))) : []),
    ]);
    const user = `Used by the task ${JSON.stringify(task)}.`;
    return found.map(({ code, message, hint }) =>
      withoutUndefined({ code, message, hint: hint === undefined ? user : `${user} ${hint}`, location }),
    );
  });
}

const beforeAgent = "is not there when an operation of setup starts the extension";

function textsIn(value: Json, path: KeyPath): { readonly text: string; readonly path: KeyPath }[] {
  if (typeof value === "string") return value.includes("{") ? [{ text: value, path }] : [];
  if (Array.isArray(value)) return value.flatMap((item: Json, index) => textsIn(item, [...path, index]));
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([key, member]) => textsIn(member, [...path, key]));
}
