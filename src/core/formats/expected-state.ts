import { containsWord, statesText } from "./contains-text.ts";
import type { ExpectedState } from "./model.ts";
import { compilePattern } from "../templates/pattern.ts";
import { plainText } from "../text/visible-text.ts";

/** The parts of an expected state; as a text it is what is contained. */
export function stateParts(state: string | ExpectedState): ExpectedState {
  return typeof state === "string" ? { contains: state } : state;
}

/** Whether a text meets all parts of an expected state. Invisible characters are ignored. Throws `task/pattern`. */
export function meetsState(text: string, state: string | ExpectedState): boolean {
  const { contains, equals, matches, wholeWord = false } = stateParts(state);
  const plain = plainText(text);
  return (
    (contains === undefined || (wholeWord ? containsWord : statesText)(text, contains)) &&
    (equals === undefined || plain.trim() === equals.trim()) &&
    (matches === undefined || compilePattern(matches).test(plain))
  );
}

/** What a text must do, as verbs. */
export function describeState(state: string | ExpectedState): string {
  const { contains, equals, matches, wholeWord = false } = stateParts(state);
  const how = wholeWord ? "contains the word" : "contains";
  return [
    ...(contains === undefined ? [] : [`${how} ${JSON.stringify(contains)}`]),
    ...(equals === undefined ? [] : [`equals ${JSON.stringify(equals)}`]),
    ...(matches === undefined ? [] : [`matches ${JSON.stringify(matches)}`]),
  ].join(" and ");
}
