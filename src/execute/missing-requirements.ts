import type { Eval, Task } from "../core/formats/model.ts";

/** What a run has, as far as tasks may require it. */
export interface Provided {
  readonly eval: Eval;
  readonly env: Readonly<Record<string, string>>;
}

/** Looks for everything that tasks require; gives what is missing, as texts for the reader, by the name of the task. */
export async function missingRequirements(
  _provided: Provided,
  _tasks: readonly Task[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  return Promise.resolve(new Map());
}
