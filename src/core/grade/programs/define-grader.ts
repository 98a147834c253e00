import type { JsonObject } from "../../formats/json.ts";
import type { GraderAnswer } from "./answer.ts";
import type { TrajectoryRecord } from "./trajectory-record.ts";

/** A schema of any library that keeps to Standard Schema, such as zod, Valibot or ArkType. */
export interface SettingsSchema<T> {
  readonly "~standard": {
    readonly validate: (value: unknown) => SettingsResult<T> | Promise<SettingsResult<T>>;
  };
}

type SettingsResult<T> =
  | { readonly value: T; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string;
        readonly path?: readonly unknown[] | undefined;
      }[];
    };

/** A grader of your own. */
export interface GraderDefinition<T = JsonObject> {
  /** Schema of `settings` of graders of type `script`; absent: they are given as they are. */
  readonly settings?: SettingsSchema<T>;
  /**
   * Judges a finished trial. What it throws is an error of this grader, and so is everything that takes longer than its `timeout`.
   * A score of null means that there was nothing to judge.
   */
  grade(
    trajectory: TrajectoryRecord,
    context: { readonly settings: T },
  ): GraderAnswer | Promise<GraderAnswer>;
}

/**
 * Gives a grader its types. A file has it as its default export, and a grader of type `script` names the file:
 *
 * ```ts
 * export default defineGrader({
 *   grade: ({ calls }) => ({ score: calls.length === 1 ? 1 : 0, reason: `${calls.length} calls` }),
 * });
 * ```
 */
export function defineGrader<T = JsonObject>(definition: GraderDefinition<T>): GraderDefinition<T> {
  return definition;
}
