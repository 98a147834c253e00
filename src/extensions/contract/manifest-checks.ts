import { messageOf } from "../../core/errors/error.ts";
import formats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { jsonDifference } from "../../core/checks/json-difference.ts";
import { didYouMean } from "../../core/formats/did-you-mean.ts";
import { type ExtensionManifest, extensionPhases } from "../../core/formats/extension/manifest.ts";
import { readInitializeResult } from "../../core/formats/extension/protocol.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { fail, type Finding, pass, skip } from "./subject.ts";

/** Checks that the result of `initialize` is a manifest whose schemas can be used. */
export function checkManifest(result: Json): Finding {
  const read = readInitializeResult(result);
  if (!read.ok) return fail(read.message);
  const operations = isJsonObject(result) ? result["operations"] : undefined;
  const problems = Object.entries(isJsonObject(operations) ? operations : {}).flatMap(([name, declared]) => {
    const problem = schemaProblem(isJsonObject(declared) ? declared["params"] : undefined);
    return problem === undefined ? [] : [`${name}: ${problem}`];
  });
  const count = Object.keys(read.manifest.operations).length;
  return problems.length === 0
    ? pass(`${count} operation${count === 1 ? "" : "s"}, each with a usable schema`)
    : fail(problems.join("; "));
}

function schemaProblem(params: Json | undefined): string | undefined {
  if (!isJsonObject(params)) return "params is not a JSON Schema";
  if (params["type"] !== "object") return 'its params do not say type: "object"';
  try {
    compile(params);
    return undefined;
  } catch (error) {
    return `its params cannot be compiled: ${messageOf(error)}`;
  }
}

/** How many operations are called without arguments. */
const mostTried = 8;

/** Operations that reject a call without arguments, so that such a call has no effect. */
export function operationsWithRequiredArguments({ operations }: ExtensionManifest): readonly string[] {
  const found = Object.entries(operations).filter(([, { params }]) => {
    try {
      return compile(params)({}) !== true;
    } catch {
      return false; // reported by the check of the manifest
    }
  });
  return found.slice(0, mostTried).map(([name]) => name);
}

function compile({ $schema: _dialect, ...schema }: JsonObject): (value: Json) => unknown {
  const ajv = new Ajv2020({ strict: false, logger: false, ownProperties: true });
  formats.default(ajv);
  return ajv.compile(schema);
}

/** Compares the manifest that a program gives with its `extension.yaml`. */
export function compareManifests(given: ExtensionManifest, written: ExtensionManifest | undefined): Finding {
  if (written === undefined) return skip("there is no extension.yaml beside the program");
  const problems = [
    ...(["name", "version"] as const)
      .filter((key) => given[key] !== written[key])
      .map((key) => `${key} is ${given[key]}, but ${written[key]} in extension.yaml`),
    ...Object.keys(given.operations)
      .filter((name) => !Object.hasOwn(written.operations, name))
      .map((name) => {
        const near = didYouMean(name, Object.keys(written.operations));
        return `operation ${name} is not in extension.yaml${near === undefined ? "" : ` (${near} is)`}`;
      }),
    ...Object.entries(written.operations).flatMap(([name, { params, phases }]) => {
      const own = Object.hasOwn(given.operations, name) ? given.operations[name] : undefined;
      if (own === undefined) return [`operation ${name} is in extension.yaml only`];
      const difference = jsonDifference(own.params, params, "equal");
      return [
        ...(difference === undefined
          ? []
          : [difference.messageFor(`params of ${name}${difference.pointer}`)]),
        ...extensionPhases
          .filter((phase) => own.phases.includes(phase) !== phases.includes(phase))
          .map((phase) => {
            const where = own.phases.includes(phase) ? "in the program" : "in extension.yaml";
            return `${name} has the phase ${phase} only ${where}`;
          }),
      ];
    }),
  ];
  return problems.length === 0 ? pass("as extension.yaml says") : fail(problems.join("; "));
}
