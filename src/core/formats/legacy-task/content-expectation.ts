import { escapeTemplate } from "../../templates/parse-template.ts";
import type { KeyPath } from "../key-path.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { JsonExpectation, TextExpectation } from "../step.ts";
import { withoutUndefined } from "../without-undefined.ts";
import { translateFieldPath } from "./field-path.ts";
import type { LegacyContent, LegacyField } from "./legacy-schema.ts";
import { escapeJson } from "./translate-template.ts";

/**
 * Reads `{match, fields}`. One thing is stricter than in the older tool: a field without any expectation has to exist, where
 * there it says nothing.
 */
export function contentExpectation(
  content: LegacyContent | undefined,
  path: KeyPath,
  reader: LenientReader,
): TextExpectation | undefined {
  const { match, fields = [] } = content ?? {};
  if (match === undefined && fields.length === 0) return undefined;
  const json = fields.map((field, index) => fieldExpectation(field, [...path, "fields", index], reader));
  return withoutUndefined({
    matches: match === undefined ? undefined : [escapeTemplate(match)],
    json: json.length === 0 ? undefined : json,
  });
}

function fieldExpectation(field: LegacyField, at: KeyPath, reader: LenientReader): JsonExpectation {
  const path = translateFieldPath(field.path ?? "");
  if (path === undefined) {
    reader.refuse(`${JSON.stringify(field.path)} is no path`, [...at, "path"], {
      hint: "Write keys with dots and positions in brackets, such as items[0].name.",
    });
  }
  const { equals, type, match, exists } = field;
  return withoutUndefined({
    path: escapeTemplate(path ?? "$"),
    exists,
    type: type === "bool" ? ("boolean" as const) : type,
    matches: match === undefined ? undefined : escapeTemplate(match),
    ...(equals === undefined || equals === null ? {} : { equals: escapeJson(equals), loose: true as const }),
  });
}
