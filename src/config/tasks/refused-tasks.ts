import type { Diagnostic } from "../../core/errors/error.ts";
import type { Secret } from "../../core/trace/redact.ts";
import { maskSecrets } from "../secrets/mask-secrets.ts";
import type { TasksOfEval } from "./parse-tasks.ts";

/** Why tasks cannot run, by task, without anything secret in the lines around the places. Tasks that can are left out. */
export function refusedTasks(
  { refused }: Pick<TasksOfEval, "refused">,
  secrets: readonly Secret[],
): ReadonlyMap<string, readonly Diagnostic[]> {
  const values = secrets.map(({ value }) => value);
  const masked = ({ frame, ...rest }: Diagnostic): Diagnostic =>
    frame === undefined ? rest : { ...rest, frame: maskSecrets(frame, values) };
  const all = [...refused].filter(([, diagnostics]) => diagnostics.length > 0);
  return new Map(all.map(([task, diagnostics]) => [task, diagnostics.map(masked)]));
}
