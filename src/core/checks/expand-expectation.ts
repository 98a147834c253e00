import { McpvalsError } from "../errors/error.ts";
import type { JsonExpectation, TextExpectation } from "../formats/step.ts";
import type { Json } from "../formats/model.ts";
import type { Expander } from "../templates/expand.ts";
import { isFoundInEveryText } from "../templates/pattern.ts";
import { inEqualText, inIgnoredPath, inJsonPath, inPattern } from "../templates/places.ts";

/**
 * Replaces the templates in what is expected of a text. Values from outside mean themselves in patterns and paths. Throws
 * `task/untrusted-value` where that cannot be, and `task/unfit-value` for what has to be there and became empty.
 */
export function expandTextExpectation(expectation: TextExpectation, expander: Expander): TextExpectation {
  const { equals, contains, matches, json } = expectation;
  return {
    ...(equals === undefined ? {} : { equals: expander.placed(equals, inEqualText) }),
    ...(contains === undefined ? {} : { contains: contains.map((text) => expander.wanted(text)) }),
    ...(matches === undefined ? {} : { matches: matches.map((pattern) => expandPattern(pattern, expander)) }),
    ...(json === undefined ? {} : { json: expandJsonExpectations(json, expander) }),
  };
}

/** Replaces the templates in what is expected of places in a JSON value, paths included. */
export function expandJsonExpectations(
  expectations: readonly JsonExpectation[],
  expander: Expander,
): readonly JsonExpectation[] {
  return expectations.map((expectation) => expandJsonExpectation(expectation, expander));
}

function expandJsonExpectation(expectation: JsonExpectation, expander: Expander): JsonExpectation {
  const { path, equals, contains, matches, ignorePaths } = expectation;
  return {
    ...expectation,
    path: expander.placed(path, inJsonPath),
    ...(equals === undefined ? {} : { equals: expander.json(equals) }),
    ...(contains === undefined ? {} : { contains: expandWanted(contains, expander) }),
    ...(matches === undefined ? {} : { matches: expandPattern(matches, expander) }),
    ...(ignorePaths === undefined
      ? {}
      : { ignorePaths: ignorePaths.map((each) => expander.placed(each, inIgnoredPath)) }),
  };
}

/** A pattern that is found everywhere is refused when it is read; here it is for what templates made of it. */
function expandPattern(template: string, expander: Expander): string {
  const pattern = expander.placed(template, inPattern);
  if (pattern === template || (pattern !== "" && !isFoundInEveryText(pattern))) return pattern;
  throw new McpvalsError(
    "task/unfit-value",
    `${template} gives the pattern ${JSON.stringify(pattern)}, which is found in every text`,
  );
}

/** Every text that has to be contained, at any depth. */
function expandWanted(contains: Json, expander: Expander): Json {
  if (typeof contains === "string") {
    const value = expander.json(contains);
    return typeof value === "string" ? expander.wanted(contains) : value;
  }
  if (typeof contains !== "object" || contains === null) return contains;
  if (Array.isArray(contains)) return contains.map((item: Json) => expandWanted(item, expander));
  const members = Object.entries(contains).map(
    ([key, member]) => [key, expandWanted(member, expander)] as const,
  );
  return Object.fromEntries(members);
}
