import * as z from "zod";
import { closedObject, filledText, optional, patternText } from "../model/fields.ts";
import { containsText } from "../expect/contains-text.ts";
import { compilePattern } from "../templates/pattern.ts";
import { shortened } from "../base/visible-text.ts";
import { finalMessage, repeatedTurn } from "../trace/trajectory.ts";
import { agentGrade, declaredKind, type GraderCheck, nothingDone } from "./grader.ts";

const texts = z.array(filledText).default([]);
const patterns = z.array(patternText).default([]);

const config = z.lazy(() =>
  closedObject({
    contains: texts.describe("Texts that it must contain, ignoring case."),
    not_contains: texts.describe("Texts that it must not contain, ignoring case."),
    contains_cs: texts.describe("Texts that it must contain, in the same case."),
    not_contains_cs: texts.describe("Texts that it must not contain, in the same case."),
    contains_any: texts.describe("Texts of which it must contain one, ignoring case."),
    regex_match: patterns.describe("Regular expressions (RE2) that must be found anywhere in it."),
    regex_not_match: patterns.describe("Regular expressions (RE2) that must not be found anywhere in it."),
    in: optional(
      z.enum(["last", "all"]),
      "`last`: the last message of the agent's last turn. `all`: all of its messages, joined by line breaks.",
      "`last`",
    ),
  }).refine((all) => Object.values(all).some((list) => Array.isArray(list) && list.length > 0), {
    error: "must have a text or a pattern to look for",
  }),
);

/** Does the agent's answer have the right texts? Score = checks that hold / all checks. */
export const text = declaredKind({
  type: "text",
  description: "Texts and patterns that the agent's answer must or must not contain. All must hold.",
  config,
  example: { contains: ["4 notes"], not_contains: ["error"] },
  grade(wanted, trajectory) {
    const last = finalMessage(trajectory);
    const read = wanted.in === "all" ? trajectory.messages : last === undefined ? [] : [last];
    const answer = read.map((message) => message.text).join("\n");
    const isSilent = answer.trim() === "";
    const evidence = read.map(({ seq }) => seq);
    const check = (isFound: boolean, isWanted: boolean, what: string): GraderCheck => ({
      passed: isFound === isWanted,
      reason: `the answer ${isFound ? "contains" : "does not contain"} ${what}`,
      evidence,
    });
    const has = (what: string, says: (text: string) => boolean): GraderCheck => {
      const found = read.filter((message) => says(message.text));
      const repeated = found.map(({ turn }) => repeatedTurn(trajectory, turn, says));
      if (found.length === 0 || repeated.includes(undefined))
        return check(!isSilent && says(answer), true, what);
      const reason = `the answer only repeats the simulated user with ${what}`;
      return {
        passed: false,
        reason,
        evidence: [...repeated.flatMap((turn) => turn?.seq ?? []), ...evidence],
      };
    };
    const hasNot = (what: string, says: (text: string) => boolean): GraderCheck =>
      check(says(answer), false, what);
    const each = (
      list: readonly string[],
      judge: typeof has,
      says: Says,
      how: (part: string) => string = quoted,
    ): readonly GraderCheck[] => list.map((part) => judge(how(part), (where) => says(part, where)));
    const any = wanted.contains_any;
    const checks = [
      ...each(wanted.contains, has, ignoringCase),
      ...each(wanted.not_contains, hasNot, ignoringCase),
      ...each(wanted.contains_cs, has, sameCase, inCase),
      ...each(wanted.not_contains_cs, hasNot, sameCase, inCase),
      ...(any.length === 0
        ? []
        : [
            has(`any of ${any.map(quoted).join(", ")}`, (where) =>
              any.some((part) => containsText(where, part)),
            ),
          ]),
      ...each(wanted.regex_match, has, matching, asPattern),
      ...each(wanted.regex_not_match, hasNot, matching, asPattern),
    ];
    const nothing = nothingDone(trajectory) ?? (isSilent ? "the agent gave no answer" : undefined);
    return agentGrade(checks, trajectory, nothing);
  },
});

/** Whether a text has what is looked for. */
type Says = (part: string, text: string) => boolean;
const ignoringCase: Says = (part, where) => containsText(where, part);
const sameCase: Says = (part, where) => where.includes(part);
const matching: Says = (pattern, where) => compilePattern(pattern).test(where);

function inCase(part: string): string {
  return `${quoted(part)} in this case`;
}

function asPattern(pattern: string): string {
  return `/${pattern}/`;
}

function quoted(wanted: string): string {
  return JSON.stringify(shortened(wanted, 80));
}
