import { alikeFindings } from "../model/alike-findings.ts";
import { unknownCode } from "../check/catalogue.ts";
import type { Finding, FindingPlace, RunFinding } from "../model/finding.ts";
import { visibleText, clipText } from "../base/visible-text.ts";
import type { CheckResult } from "../check.ts";
import { placesText } from "../report/findings.ts";
import { answerRows } from "../report/explain.ts";
import { protocolError } from "../trace/trajectory.ts";
import { Answer } from "./server.ts";
import { formatDuration } from "../base/duration.ts";
import { createStyle, paintRows } from "../base/columns.ts";

/** Which findings are meant: those that have all of this. */
export type FindingCriteria = Partial<Pick<Finding, "code" | "severity" | "server">> & FindingPlace;

/** The matchers that importing `mcpvals/vitest` adds to `expect`. */
export interface McpMatchers {
  /** The server answered the request with a result that is not an error. Takes an answer of `callTool` and others. */
  toSucceed(): void;
  /** The server answered that the request failed, with `isError: true` or a JSON-RPC error, in words that contain or match this. */
  toFailWith(text?: string | RegExp): void;
  /** The request succeeded, and the text of its result contains or matches this. */
  toHaveText(text: string | RegExp): void;
  /** The call succeeded, and its result fits the `outputSchema` that its tool declares. */
  toMatchOutputSchema(): void;
  /** A check found this, given as its code or as what it must have; without one, anything. Takes the result of `check`. */
  toHaveFinding(criteria?: string | FindingCriteria): void;
}

interface Context {
  readonly isNot: boolean;
}

interface Outcome {
  readonly pass: boolean;
  readonly message: () => string;
}

/** Each as Vitest calls it. What was never looked at fails, negated or not. */
export const matchers: {
  readonly [K in keyof McpMatchers]: (
    this: Context,
    received: unknown,
    ...expected: Parameters<McpMatchers[K]>
  ) => Outcome;
} = {
  toSucceed(received) {
    const answer = answerOf("toSucceed", received);
    return outcome(!answer.failed, `the request ${this.isNot ? "succeeded" : "failed"}`, answer);
  },
  toFailWith(received, text) {
    const answer = answerOf("toFailWith", received);
    if (!answer.failed) return outcome(false, "the request succeeded", answer);
    const wanted = text === undefined ? "" : ` with ${shown(text)}`;
    return outcome(
      text === undefined || fits(answer.text, text),
      this.isNot ? `the request failed${wanted}` : `the request failed, but not${wanted}`,
      answer,
    );
  },
  toHaveText(received, text) {
    const answer = answerOf("toHaveText", received);
    if (answer.failed)
      return outcome(this.isNot, `the request failed, so that it has no text to compare`, answer);
    const verb = this.isNot ? "has" : "lacks";
    return outcome(fits(answer.text, text), `the result ${verb} the text ${shown(text)}`, answer);
  },
  toMatchOutputSchema(received) {
    const answer = answerOf("toMatchOutputSchema", received);
    const { output, request, failed } = answer;
    const subject = request.kind === "tool" ? `tool ${JSON.stringify(request.tool)}` : "the request";
    if (failed) return outcome(this.isNot, "the request failed, so that it has no output", answer);
    if (output === undefined) return outcome(this.isNot, `${subject} declares no outputSchema`, answer);
    const { problem } = output;
    return outcome(problem === undefined, `${subject} ${problem ?? "fits its outputSchema"}`, answer);
  },
  toHaveFinding(received, criteria = {}) {
    const { findings, verdict } = checkOf(received);
    const wanted: FindingCriteria = typeof criteria === "string" ? { code: criteria } : criteria;
    checkCode(wanted.code, findings);
    const found = findings.filter((finding) => hasAll(finding, wanted));
    const looked = verdict === "pass" || verdict === "fail";
    const named = Object.entries(wanted).map(([key, value]) => `${key} ${JSON.stringify(value)}`);
    const what = named.length === 0 ? "finding" : `finding with ${named.join(", ")}`;
    if (this.isNot && found.length === 0 && !looked)
      return {
        pass: true,
        message: () => `the check is ${verdict}, so that it does not show that there is no ${what}`,
      };
    const listed = this.isNot
      ? found
      : findings.toSorted((a, b) => likeness(b, wanted) - likeness(a, wanted));
    return {
      pass: found.length > 0,
      message: () =>
        [`the check has ${this.isNot ? "a" : "no"} ${what}`, "", ...findingLines(listed)].join("\n"),
    };
  },
};

function outcome(pass: boolean, text: string, answer: Answer): Outcome {
  return { pass, message: () => [visibleText(text), "", ...answerLines(answer)].join("\n") };
}

function answerOf(matcher: string, received: unknown): Answer {
  if (received instanceof Answer) return received;
  throw new TypeError(`${matcher} takes what callTool, readResource or getPrompt gave${hintOf(received)}`);
}

function checkOf(received: unknown): CheckResult {
  const { findings, verdict } = (received ?? {}) as Partial<CheckResult>;
  if (Array.isArray(findings) && typeof verdict === "string") return received as CheckResult;
  throw new TypeError(`toHaveFinding takes what check gave${hintOf(received)}`);
}

function hintOf(received: unknown): string {
  return received instanceof Promise ? ", not a promise: write await before it" : `, not ${typeof received}`;
}

/** A misspelt code would make a negated expectation hold. */
function checkCode(code: string | undefined, findings: readonly Finding[]): void {
  if (code === undefined) return;
  const unknown = unknownCode(code);
  if (unknown === undefined || findings.some((finding) => finding.code === code)) return;
  throw new TypeError(`${unknown.message}. ${unknown.hint}`);
}

function hasAll(finding: Finding, criteria: FindingCriteria): boolean {
  return likeness(finding, criteria) === Object.keys(criteria).length;
}

/** How many of the criteria a finding meets. */
function likeness({ code, severity, server, place }: Finding, criteria: FindingCriteria): number {
  const facts: FindingCriteria = { code, severity, server, ...place };
  return Object.entries(criteria).filter(([key, value]) => facts[key as keyof FindingCriteria] === value)
    .length;
}

function fits(text: string, wanted: string | RegExp): boolean {
  if (wanted === "")
    throw new TypeError("the empty text is in every text: write what must be there, or /^$/ for no text");
  return typeof wanted === "string"
    ? text.includes(wanted)
    : new RegExp(wanted, wanted.flags.replace(/[gy]/g, "")).test(text);
}

function shown(wanted: string | RegExp): string {
  return typeof wanted === "string" ? JSON.stringify(wanted) : String(wanted);
}

const page = { style: createStyle(false), width: Infinity };
const maxShownText = { lines: 20, characters: 2000 };

function answerLines({ request, result, error, latencyMs }: Answer): string[] {
  const sent = { text: clipText(describeRequest(request), 500) };
  const outcome = error === undefined ? { result } : { error: protocolError({ ...error }) };
  return paintRows(
    [
      { label: "sent", pieces: [sent], note: formatDuration(latencyMs) },
      ...answerRows(request.kind, outcome, maxShownText),
    ],
    0,
    page,
  );
}

function describeRequest(request: Answer["request"]): string {
  switch (request.kind) {
    case "tool":
      return `${request.tool} ${JSON.stringify(request.args)}`;
    case "resource":
      return request.uri;
    case "prompt":
      return `${request.prompt} ${JSON.stringify(request.args)}`;
  }
}

const maxShownFindings = 20;

function findingLines(findings: readonly RunFinding[]): string[] {
  const groups = alikeFindings(findings);
  const rest = groups.length - maxShownFindings;
  return [
    ...groups.slice(0, maxShownFindings).map((group) => {
      const [{ severity, code, message }] = group;
      return clipText(
        [severity, code, placesText(group), message].filter((part) => part !== "").join("  "),
        500,
      );
    }),
    ...(findings.length === 0 ? ["it has no findings"] : []),
    ...(rest > 0 ? [`and ${rest} more`] : []),
  ];
}
