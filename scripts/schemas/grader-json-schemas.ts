import { isJsonObject, type Json, type JsonObject } from "../../src/core/formats/json.ts";
import { inputJsonSchema } from "../../src/core/formats/settings.ts";
import { graderKinds } from "../../src/core/grade/kinds.ts";

/** The definitions of a JSON Schema, with the settings of a `Grader` by its type. */
export function withGraderTypes(definitions: JsonObject): JsonObject {
  const { Grader: grader } = definitions;
  if (!isJsonObject(grader)) return definitions;
  const { properties } = grader;
  const kinds = Object.values(graderKinds).map(({ type, description, config }) => {
    const { $schema: _, $defs = {}, ...settings } = inputJsonSchema(config);
    const needsSettings = !config.safeParse({}).success;
    return { type, description, settings, needsSettings, definitions: isJsonObject($defs) ? $defs : {} };
  });
  const rules = kinds.map(({ type, description, settings, needsSettings }): Json => ({
    if: { properties: { type: { const: type } }, required: ["type"] },
    // oxlint-disable-next-line unicorn/no-thenable
    then: {
      properties: { config: { description, ...settings } },
      ...(needsSettings ? { required: ["config"] } : {}),
    },
  }));
  const types = { type: { ...typeOf(properties), enum: kinds.map(({ type }) => type) } };
  return {
    ...definitions,
    ...Object.assign({}, ...kinds.map((kind) => kind.definitions)),
    Grader: { ...grader, properties: { ...(isJsonObject(properties) ? properties : {}), ...types }, allOf: rules },
  };
}

function typeOf(properties: Json | undefined): JsonObject {
  const type = isJsonObject(properties) ? properties["type"] : undefined;
  return isJsonObject(type) ? type : {};
}
