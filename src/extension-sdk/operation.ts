import * as z from "zod";
import {
  type ExtensionPhase,
  extensionPhases,
  type OperationDeclaration,
} from "../core/formats/extension/manifest.ts";
import type { OperationResult } from "../core/formats/extension/protocol.ts";
import type { JsonObject } from "../core/formats/json-value.ts";
import { describeIssues } from "./describe-issues.ts";
import type { OperationOutcome, OperationRun } from "./operation-run.ts";
import { paramsSchema } from "./params-schema.ts";
import { resultOf } from "./result-of.ts";
import { RpcError } from "./rpc-error.ts";

/** An operation as its author writes it. */
export interface OperationDefinition<S extends z.ZodType, R> {
  /** One sentence for those who write tasks. */
  readonly description?: string;
  /** Arguments, an object. Hosts see it as JSON Schema, so it cannot have what JSON has not, such as dates. */
  readonly params: S;
  /** Where it can be used. Default: everywhere. */
  readonly phases?: readonly ExtensionPhase[];
  /**
   * Does it. `args` are checked, and have the defaults. Without an annotation `context` has no resources; with
   * `context: OperationRun<Db>` the operation fits extensions whose `open` makes a `Db`.
   */
  readonly run: (
    args: z.output<S>,
    context: OperationRun<R>,
  ) => Promise<OperationOutcome | void> | OperationOutcome | void;
}

/** An operation of extensions that have resources of type `R`. */
export interface Operation<R> {
  readonly declaration: OperationDeclaration;
  /**
   * Checks the arguments and runs it. Throws RpcError for arguments that do not fit, and whatever it throws but
   * OperationFailed.
   */
  readonly execute: (args: JsonObject, context: OperationRun<R>) => Promise<OperationResult>;
}

/**
 * Makes an operation. Throws an Error when `params` is no object, or has what JSON Schema cannot say, or when `phases` is
 * empty.
 */
export function operation<S extends z.ZodType, R = unknown>(
  definition: OperationDefinition<S, R>,
): Operation<R> {
  const { description, params, phases = extensionPhases, run } = definition;
  if (phases.length === 0) throw new Error("phases is empty: an operation needs at least one");
  return {
    declaration: {
      ...(description === undefined ? {} : { description }),
      params: paramsSchema(params),
      phases,
    },
    execute: async (args, context) => {
      const checked = await z.safeParseAsync(params, args);
      if (checked.success) return resultOf(() => run(checked.data, context));
      const message = `the arguments are not valid: ${describeIssues(checked.error.issues)}`;
      throw new RpcError("invalidParams", message);
    },
  };
}
