import type { JsonExpectation, TextExpectation } from "../formats/step.ts";
import type { Json } from "../formats/model.ts";
import type { Expander } from "../templates/expand.ts";
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
    ...(matches === undefined
      ? {}
      : { matches: matches.map((pattern) => expander.placed(pattern, inPattern)) }),
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
    ...(matches === undefined ? {} : { matches: expander.placed(matches, inPattern) }),
    ...(ignorePaths === undefined
      ? {}
      : { ignorePaths: ignorePaths.map((each) => expander.placed(each, inIgnoredPath)) }),
  };
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
