import * as z from "zod";
import { closedObject, filledText, optional, patternText } from "../model/fields.ts";
import { containsText } from "../expect/contains-text.ts";
import { compilePattern } from "../templates/pattern.ts";
import { shortened } from "../base/visible-text.ts";
import { checksGrade, declaredKind, type GraderCheck, skip } from "./grader.ts";

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
      "`last`: the agent's last message. `all`: all of its messages, joined by line breaks.",
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
    const { messages } = trajectory;
    const read = wanted.in === "all" ? messages : messages.slice(-1);
    const answer = read.map((message) => message.text).join("\n");
    if (trajectory.agentStarted === undefined) return skip("no agent took part");
    if (answer.trim() === "") return skip("the agent said nothing");
    const evidence = read.map(({ seq }) => seq);
    const check = (isFound: boolean, isWanted: boolean, what: string): GraderCheck => ({
      passed: isFound === isWanted,
      reason: `the answer ${isFound ? "contains" : "does not contain"} ${what}`,
      evidence,
    });
    const each = (
      list: readonly string[],
      isWanted: boolean,
      finds: (wantedText: string) => boolean,
      how = "",
    ) => list.map((wantedText) => check(finds(wantedText), isWanted, `${quoted(wantedText)}${how}`));
    const ignoringCase = (part: string): boolean => containsText(answer, part);
    const sameCase = (part: string): boolean => answer.includes(part);
    const matching = (pattern: string): boolean => compilePattern(pattern).test(answer);
    const any = wanted.contains_any;
    const anyCheck = (): GraderCheck =>
      check(any.some(ignoringCase), true, `any of ${any.map(quoted).join(", ")}`);
    const checks = [
      ...each(wanted.contains, true, ignoringCase),
      ...each(wanted.not_contains, false, ignoringCase),
      ...each(wanted.contains_cs, true, sameCase, " in this case"),
      ...each(wanted.not_contains_cs, false, sameCase, " in this case"),
      ...(any.length === 0 ? [] : [anyCheck()]),
      ...wanted.regex_match.map((pattern) => check(matching(pattern), true, `/${pattern}/`)),
      ...wanted.regex_not_match.map((pattern) => check(matching(pattern), false, `/${pattern}/`)),
    ];
    return checksGrade(checks, trajectory);
  },
});

function quoted(wanted: string): string {
  return JSON.stringify(shortened(wanted, 80));
}
