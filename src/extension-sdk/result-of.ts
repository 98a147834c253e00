import { inspect } from "node:util";
import type { OperationResult } from "../core/formats/extension/protocol.ts";
import type { Json } from "../core/formats/json-value.ts";
import { errorText } from "./error-text.ts";
import { OperationFailed, type OperationOutcome } from "./operation-run.ts";

/**
 * Runs an operation and gives what its host is told of the end. Throws whatever it throws but OperationFailed, and a
 * TypeError for an outcome that is none.
 */
export async function resultOf(
  run: () => Promise<OperationOutcome | void> | OperationOutcome | void,
): Promise<OperationResult> {
  try {
    return checked(await run());
  } catch (error) {
    if (!(error instanceof OperationFailed)) throw error;
    const { message, outputs } = error;
    return asJson({ success: false, message, ...(outputs === undefined ? {} : { outputs }) });
  }
}

/** A program that is not checked by a compiler may return anything, and `false` must not count as success. */
function checked(outcome: unknown): OperationResult {
  if (outcome === undefined || outcome === null) return { success: true };
  if (typeof outcome !== "object" || Array.isArray(outcome)) {
    throw new TypeError(`the operation returned ${JSON.stringify(outcome)} instead of an outcome`);
  }
  const {
    success = true,
    message,
    outputs,
  }: { success?: unknown; message?: unknown; outputs?: unknown } = outcome;
  if (typeof success !== "boolean")
    throw new TypeError("the operation returned a success that is neither true nor false");
  return asJson({
    success,
    ...(message === undefined ? {} : { message: typeof message === "string" ? message : inspect(message) }),
    ...(outputs === undefined ? {} : { outputs: outputs as Readonly<Record<string, Json>> }),
  });
}

/** As the host will read it. What is no JSON is told of here, where it still is known whose fault it is. */
function asJson(result: OperationResult): OperationResult {
  try {
    return JSON.parse(JSON.stringify(result)) as OperationResult;
  } catch (error) {
    throw new TypeError(`the outputs are not JSON: ${errorText(error)}`, { cause: error });
  }
}
