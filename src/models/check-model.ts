import { McpvalsError } from "../core/errors/error.ts";
import type { ModelSpec } from "../core/formats/model.ts";
import type { Environment } from "./language-model.ts";
import { locateModel } from "./locate-model.ts";

/**
 * Refuses a model that nothing outside the config could make right. Throws `model/unknown-provider` or
 * `config/invalid-value`; a missing key is no mistake of the config and shows when the model is asked.
 */
export function checkModel(spec: ModelSpec, env: Environment): void {
  try {
    locateModel(spec, env);
  } catch (error) {
    if (error instanceof McpvalsError && error.kind !== "usage") return;
    throw error;
  }
}
