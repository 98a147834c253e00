import { McpvalsError } from "../../core/errors/error.ts";
import { suggestion } from "../../core/formats/did-you-mean.ts";
import { fillDefaults } from "../../core/formats/extension/fill-defaults.ts";
import type { ExtensionManifest, ExtensionPhase } from "../../core/formats/extension/manifest.ts";
import { durationInWords } from "../../core/formats/extension/typed-args.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import type { SchemaCheck } from "../../core/grade/grader.ts";
import type { Phase } from "../../core/trace/events.ts";
import { untilAborted } from "../../process/deadline.ts";
import type { OperationCall } from "../operation-host.ts";

export type ValidateSchema = (schema: Json, value: Json) => Promise<SchemaCheck>;

/** A call that can be made. */
export interface CheckedCall {
  /** With their defaults. */
  readonly args: JsonObject;
  readonly phase: ExtensionPhase;
}

/**
 * Holds a call against what the extension offers. Throws McpvalsError `extension/invalid-arguments` for an operation that
 * there is not and for arguments that do not fit, `task/extension` for a phase that the operation lacks,
 * `extension/protocol` for a schema that cannot be used, and the signal's reason.
 */
export async function checkCall(
  call: OperationCall,
  manifest: ExtensionManifest,
  { validate, signal }: { readonly validate: ValidateSchema; readonly signal: AbortSignal },
): Promise<CheckedCall> {
  const { extension, operation } = call;
  const name = `${extension}.${operation}`;
  const { operations } = manifest;
  const declared = Object.hasOwn(operations, operation) ? operations[operation] : undefined;
  if (declared === undefined) {
    throw new McpvalsError(
      "extension/invalid-arguments",
      `extension "${extension}" has no operation "${operation}"`,
      {
        hint: suggestion(operation, Object.keys(operations), "operations"),
      },
    );
  }
  const phase = phaseOf(call.phase, declared.phases);
  if (phase === undefined) {
    throw new McpvalsError(
      "task/extension",
      `${name} is for ${declared.phases.join(" and ")}, not for ${call.phase}`,
    );
  }
  const args = fillDefaults(declared.params, call.args);
  if (saysNothing(declared.params)) return { args, phase };
  const check = await untilAborted(validate(declared.params, args), signal);
  if (check.status === "valid") return { args, phase };
  throw check.status === "invalid"
    ? new McpvalsError(
        "extension/invalid-arguments",
        `${name} does not take these arguments: ${check.errors.map(durationInWords).join("; ")}`,
      )
    : new McpvalsError(
        "extension/protocol",
        `the schema of the arguments of ${name} cannot be used: ${check.reason}`,
      );
}

/**
 * The phase that the operation is told; undefined when it is not for it. The state of things is looked at as in verify, by
 * an operation that lacks verify as in the first phase that it has.
 */
function phaseOf(phase: Phase, allowed: readonly ExtensionPhase[]): ExtensionPhase | undefined {
  if (phase === "probe") return allowed.includes("verify") ? "verify" : allowed[0];
  return allowed.find((each) => each === phase);
}

/** Whether every object fits. */
function saysNothing(schema: JsonObject): boolean {
  return Object.entries(schema).every(([key, value]) => key === "type" && value === "object");
}
