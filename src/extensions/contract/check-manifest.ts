import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { jsonDifference } from "../../core/checks/json-difference.ts";
import { didYouMean } from "../../core/formats/did-you-mean.ts";
import { type ExtensionManifest, extensionPhases } from "../../core/formats/extension/manifest.ts";
import { readInitializeResult } from "../../core/formats/extension/read-initialize-result.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { type Finding, fail, pass, skip } from "./contract-report.ts";

/** Whether what `initialize` gave is a manifest whose schemas can be used. */
export function checkManifest(result: Json): Finding {
  const read = readInitializeResult(result);
  if (!read.ok) return fail(read.message);
  const operations = isJsonObject(result) ? result["operations"] : undefined;
  const problems = Object.entries(isJsonObject(operations) ? operations : {}).flatMap(([name, declared]) =>
    schemaProblem(isJsonObject(declared) ? declared["params"] : undefined).map((text) => `${name}: ${text}`),
  );
  const count = Object.keys(read.manifest.operations).length;
  return problems.length === 0
    ? pass(`${count} operation${count === 1 ? "" : "s"}, each with a usable schema`)
    : fail(problems.join("; "));
}

function schemaProblem(params: Json | undefined): readonly string[] {
  if (!isJsonObject(params)) return ["params is no JSON Schema"];
  if (params["type"] !== "object") return ['its params do not say type: "object"'];
  try {
    compile(params);
    return [];
  } catch (error) {
    return [`its params cannot be compiled: ${error instanceof Error ? error.message : String(error)}`];
  }
}

/** Whether a schema takes arguments without any member. Throws for a schema that cannot be compiled. */
export function takesNothing(params: JsonObject): boolean {
  return compile(params)({}) === true;
}

function compile({ $schema: _dialect, ...schema }: JsonObject): (value: Json) => unknown {
  const ajv = new Ajv2020({ strict: false, logger: false, ownProperties: true });
  formats.default(ajv);
  return ajv.compile(schema);
}

/** Whether what the program says of itself is what its `extension.yaml` says. */
export function compareManifests(said: ExtensionManifest, written: ExtensionManifest | undefined): Finding {
  if (written === undefined) return skip("there is no extension.yaml beside the program");
  const problems = [
    ...(["name", "version"] as const).flatMap((key) =>
      said[key] === written[key] ? [] : [`${key} is ${said[key]}, but ${written[key]} in extension.yaml`],
    ),
    ...Object.keys(said.operations)
      .filter((name) => !Object.hasOwn(written.operations, name))
      .map((name) => `operation ${name} is not in extension.yaml${meant(name, written)}`),
    ...Object.entries(written.operations).flatMap(([name, { params, phases }]) => {
      const own = Object.hasOwn(said.operations, name) ? said.operations[name] : undefined;
      if (own === undefined) return [`operation ${name} is in extension.yaml only`];
      const differs = jsonDifference(own.params, params, "equal");
      return [
        ...(differs === undefined ? [] : [differs.tell(`params of ${name}${differs.pointer}`)]),
        ...extensionPhases
          .filter((phase) => own.phases.includes(phase) !== phases.includes(phase))
          .map(
            (phase) =>
              `${name} has the phase ${phase} only ${own.phases.includes(phase) ? "in the program" : "in extension.yaml"}`,
          ),
      ];
    }),
  ];
  return problems.length === 0 ? pass("as extension.yaml says") : fail(problems.join("; "));
}

function meant(name: string, { operations }: ExtensionManifest): string {
  const near = didYouMean(name, Object.keys(operations));
  return near === undefined ? "" : ` (${near} is)`;
}
