import type { JsonExpectation, TextExpectation } from "../formats/step.ts";
import type { Expander } from "../templates/expand.ts";

/** Replaces the templates in what is expected of a text; values in patterns are put in as they are. */
export function expandTextExpectation(expectation: TextExpectation, expander: Expander): TextExpectation {
  const { equals, contains, matches, json } = expectation;
  return {
    ...(equals === undefined ? {} : { equals: expander.text(equals) }),
    ...(contains === undefined ? {} : { contains: contains.map((text) => expander.text(text)) }),
    ...(matches === undefined ? {} : { matches: matches.map((pattern) => expander.text(pattern)) }),
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
    path: expander.text(path),
    ...(equals === undefined ? {} : { equals: expander.json(equals) }),
    ...(contains === undefined ? {} : { contains: expander.json(contains) }),
    ...(matches === undefined ? {} : { matches: expander.text(matches) }),
    ...(ignorePaths === undefined ? {} : { ignorePaths: ignorePaths.map((each) => expander.text(each)) }),
  };
}
