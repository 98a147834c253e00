import { McpvalsError } from "../../errors/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../formats/json.ts";
import { readJsonText } from "../../formats/read-json.ts";
import type { GraderProgram, KindContext } from "../grader.ts";
import type { TrajectoryRecord } from "./trajectory-record.ts";

/** What the program for graders in JavaScript gets on stdin. */
export type JavaScriptWork =
  | {
      readonly kind: "script";
      /** Path from the folder that the program runs in. */
      readonly file: string;
      readonly settings: JsonObject;
      readonly trajectory: TrajectoryRecord;
    }
  | { readonly kind: "code"; readonly assertions: readonly string[]; readonly variables: JsonObject };

/** The last line that a program writes on stdout which runs code of graders. */
export type CodeAnswer = { readonly answer: unknown } | { readonly problem: string };

/** What came of one assertion. */
export interface CodeResult {
  readonly holds: boolean;
  /** Why it could not be evaluated. */
  readonly error?: string;
}

/**
 * Runs code of a grader in a process of its own, and gives its answer. Throws `grader/broken` for code that gives none; `shown` is
 * what the code is called then.
 */
export async function runCode(
  shown: string,
  work: JavaScriptWork,
  { dir: cwd, runProgram, ...program }: CodeContext,
): Promise<Json> {
  const stdin = JSON.stringify(work);
  const { stdout, stderr, omitted } = await runProgram({ args: [], ...program, cwd, stdin });
  const broken = (problem: string): McpvalsError =>
    new McpvalsError("grader/broken", `${shown} ${problem}`, stderr === "" ? {} : { detail: stderr });
  if (omitted > 0) throw broken("gave an answer that is too long");
  const { value } = readJsonText(stdout.trim().split("\n").at(-1) ?? "");
  if (!isJsonObject(value)) throw broken("ended without an answer");
  if (typeof value["problem"] === "string") throw broken(value["problem"]);
  return value["answer"] ?? null;
}

type CodeContext = Pick<KindContext, "dir" | "runProgram"> &
  Pick<GraderProgram, "inheritEnv" | "timeoutMs"> &
  Partial<Pick<GraderProgram, "command" | "args">>;
