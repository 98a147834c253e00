import * as z from "zod";
import { isJsonObject, type Json, type JsonObject } from "../../src/base/json.ts";
import { inputJsonSchema } from "../../src/graders/settings.ts";
import { graderKinds } from "../../src/graders/kinds.ts";

/** How a format writes graders. */
interface GraderFormat {
  /** What it calls its graders in the definitions. */
  readonly name: string;
  /** Settings that it writes in another way, by type. */
  readonly settings: Readonly<Record<string, z.ZodRawShape>>;
  /** Settings that may stand beside `config`. */
  readonly beside: readonly string[];
}

const defaultFormat: GraderFormat = { name: "Grader", settings: {}, beside: [] };

/** The definitions of a JSON Schema, with the settings of a grader by its type. */
export function withGraderTypes(definitions: JsonObject, format: GraderFormat = defaultFormat): JsonObject {
  const { [format.name]: grader } = definitions;
  if (!isJsonObject(grader)) return definitions;
  const { properties } = grader;
  const kinds = Object.values(graderKinds).map(({ type, description, config }) => {
    const { definitions: parts, ...settings } = settingsJsonSchema(type, format);
    const named = Object.keys(isJsonObject(settings["properties"]) ? settings["properties"] : {});
    const needsSettings =
      !config.safeParse({}).success && !format.beside.some((setting) => named.includes(setting));
    return { type, description, settings, needsSettings, definitions: parts };
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
    [format.name]: { ...grader, properties: { ...(isJsonObject(properties) ? properties : {}), ...types }, allOf: rules },
  };
}

/** The JSON Schema of the settings of a type of grader, and the definitions that it refers to. */
export function settingsJsonSchema(
  type: string,
  { settings, beside }: GraderFormat,
): JsonObject & { readonly definitions: JsonObject } {
  const config = graderKinds[type]?.config;
  if (config === undefined) throw new Error(`no grader has the type ${type}`);
  const { $schema: _, $defs, ...usual } = inputJsonSchema(config);
  const { $defs: others, properties: own } = inputJsonSchema(z.object(settings[type] ?? {}));
  const { properties, required } = usual;
  const isNeeded = (name: Json): boolean => typeof name !== "string" || !beside.includes(name);
  return {
    ...usual,
    ...(isJsonObject(properties) ? { properties: merged(properties, own) } : {}),
    ...(Array.isArray(required) ? { required: required.filter(isNeeded) } : {}),
    definitions: merged($defs, others),
  };
}

function merged(...objects: readonly (Json | undefined)[]): JsonObject {
  return Object.assign({}, ...objects.filter(isJsonObject)) as JsonObject;
}

function typeOf(properties: Json | undefined): JsonObject {
  const type = isJsonObject(properties) ? properties["type"] : undefined;
  return isJsonObject(type) ? type : {};
}
