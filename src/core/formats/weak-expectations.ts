import { statesText } from "./contains-text.ts";
import { asList, asObject, formatKeyPath, type KeyPath } from "./json.ts";

/** A note about a place of a file. */
export interface WeakPlace {
  readonly message: string;
  readonly path: KeyPath;
}

/** Of an expected text that has no more than one letter, and no digit: almost every text has it. */
export function shortTexts(text: unknown, path: KeyPath): WeakPlace[] {
  if (typeof text !== "string" || !isShort(text)) return [];
  return [{ message: `${formatKeyPath(path)}: almost every text has ${JSON.stringify(text)}`, path }];
}

/** A sign of Chinese, Japanese or Korean is a word. */
function isShort(text: string): boolean {
  const signs = text.match(/[\p{L}\p{N}]/gu) ?? [];
  return text !== "" && signs.length < 2 && signs.every((sign) => /[a-z]/i.test(sign));
}

/** Of arguments that have a key of the step or test around them, which is not looked at there: they are indented too far. */
export function strayKeys(args: unknown, keys: readonly string[], path: KeyPath): WeakPlace[] {
  return keys
    .filter((key) => Object.hasOwn(asObject(args), key))
    .map((key) => {
      const place = [...path, key];
      const message = `${formatKeyPath(place)} is an argument of the tool, and nothing is expected there; ${key} belongs beside args`;
      return { message, path: place };
    });
}

/** Tools that are there to repeat what they are given. */
const echoing = /(?:^|[^a-z])(?:echo|repeat|mirror)/i;

/** Of an expectation of which every text and number stands in the arguments: a tool that only repeats those meets it. */
export function echoedArguments(
  expected: unknown,
  { tool, args }: { readonly tool: string; readonly args: unknown },
  path: KeyPath,
): WeakPlace[] {
  const [wanted, given] = [scalarsOf(expected), scalarsOf(args)];
  const isGiven = (value: unknown): boolean =>
    (typeof value === "number" || (typeof value === "string" && value.trim() !== "")) &&
    given.some((each) => each === value || statesText(String(each), String(value)));
  if (wanted.length === 0 || echoing.test(tool) || !wanted.every(isGiven)) return [];
  const message = `${formatKeyPath(path)} is also in the arguments, so a tool that only repeats them passes; expect something that only the tool can know`;
  return [{ message, path }];
}

function scalarsOf(value: unknown): readonly unknown[] {
  if (value === undefined) return [];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(scalarsOf) : [value];
}

/** Of whole numbers in a JSON value that are too large to be told from their neighbours. */
export function inexactNumbers(value: unknown, path: KeyPath): WeakPlace[] {
  if (typeof value === "number") {
    if (!Number.isInteger(value) || Number.isSafeInteger(value)) return [];
    return [
      {
        message: `${formatKeyPath(path)}: ${value} cannot be distinguished from its neighbours; such numbers lose digits`,
        path,
      },
    ];
  }
  if (typeof value !== "object" || value === null) return [];
  const members: readonly (readonly [string | number, unknown])[] = Array.isArray(value)
    ? value.map((item: unknown, index) => [index, item] as const)
    : Object.entries(value);
  return members.flatMap(([key, member]) => inexactNumbers(member, [...path, key]));
}

/** Keywords of JSON Schema that say nothing of values of other types, by the type. */
const typed: Readonly<Record<string, readonly string[]>> = {
  string: ["minLength", "maxLength", "pattern"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  array: ["items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"],
  object: [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
  ],
};

/**
 * Of a JSON Schema, and of those of its members and items, that accept values of other types than they are about, and of one
 * whose properties may all be missing.
 */
export function looseSchemas(schema: unknown, path: KeyPath): WeakPlace[] {
  const own = asObject(schema);
  const place = formatKeyPath(path);
  const types = Object.keys(typed).filter((type) =>
    typed[type]?.some((keyword) => Object.hasOwn(own, keyword)),
  );
  const [type, ...others] = types;
  const isOpen = ["type", "const", "enum", "$ref"].every((keyword) => !Object.hasOwn(own, keyword));
  const properties = asObject(own["properties"]);
  const isOptional =
    Object.keys(properties).length > 0 &&
    asList(own["required"]).length === 0 &&
    own["minProperties"] === undefined;
  const items = Array.isArray(own["items"]) ? [] : [own["items"]];
  return [
    ...(type !== undefined && others.length === 0 && isOpen
      ? [
          {
            message: `${place} has no type, so that every value that is not of type ${type} fits it; add type: ${type}`,
            path,
          },
        ]
      : []),
    ...(isOptional
      ? [
          {
            message: `${place} requires none of its properties, so that {} fits it; name them in required`,
            path,
          },
        ]
      : []),
    ...Object.entries(properties).flatMap(([name, each]) =>
      looseSchemas(each, [...path, "properties", name]),
    ),
    ...items.flatMap((each) => (each === undefined ? [] : looseSchemas(each, [...path, "items"]))),
  ];
}
