import { isJsonObject } from "../json.ts";
import type { Json } from "../json-value.ts";
import type { Problem } from "../problem.ts";
import { readJson } from "../read-json.ts";
import { withoutUndefined } from "../without-undefined.ts";
import type { OperationResult } from "./protocol.ts";

export type ReadOperationResult =
  | { readonly ok: true; readonly result: OperationResult }
  /** What is wrong, as a sentence without its end. */
  | { readonly ok: false; readonly message: string };

/**
 * Reads what an operation answered. It is taken only when there is no doubt about it: `success` is true or false, and all
 * that is said besides has its type. `null` is as if it were absent, except for `success`. Members that are not known are
 * left out.
 */
export function readOperationResult(value: unknown): ReadOperationResult {
  const problems: Problem[] = [];
  const json = readJson(value, { subject: "the result", problems, text: (text) => text });
  const [problem] = problems;
  if (problem !== undefined) return { ok: false, message: `the result is not JSON: ${problem.message}` };
  if (!isJsonObject(json)) return { ok: false, message: `the result is ${kindOf(json)}, not an object` };
  const { success, message, error, outputs } = json;
  if (typeof success !== "boolean") {
    const what = success === undefined ? "is missing" : `is ${kindOf(success)}`;
    return { ok: false, message: `success ${what}; it must be true or false` };
  }
  for (const [name, text] of Object.entries({ message, error })) {
    if (!isAbsent(text) && typeof text !== "string") {
      return { ok: false, message: `${name} is ${kindOf(text)}, not a text` };
    }
  }
  if (!isAbsent(outputs) && !isJsonObject(outputs)) {
    return { ok: false, message: `outputs is ${kindOf(outputs)}, not an object` };
  }
  if (success && typeof error === "string" && error !== "") {
    return { ok: false, message: "success is true, and yet there is an error" };
  }
  return {
    ok: true,
    result: withoutUndefined({
      success,
      message: typeof message === "string" ? message : undefined,
      error: typeof error === "string" ? error : undefined,
      outputs: isJsonObject(outputs) ? outputs : undefined,
    }),
  };
}

function isAbsent(value: Json | undefined): value is null | undefined {
  return value === undefined || value === null;
}

function kindOf(value: Json | undefined): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  if (typeof value === "string") return "a text";
  return typeof value === "boolean" ? String(value) : "a number";
}
