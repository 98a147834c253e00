import type { RunResult, TrialResult } from "../model/result.ts";
import { countOf, formatInteger, visibleText, clipText } from "../base/visible-text.ts";
import type { JudgeSummary } from "../model/calibration.ts";

const maxShownTrials = 3;
const maxShownCells = 5;
/** Tokens of unused definitions from which on a report mentions them. */
const manyTokens = 1000;

/** What is odd in the use of tools, and where prompts led: printable lines; none where nothing is odd. */
export function measurementLines({
  measurements,
  routing,
  trials,
  judges = [],
}: RunResult): readonly string[] {
  return [
    ...judges.map(describeJudge),
    ...(measurements === undefined ? [] : oddities(measurements, trials)),
    ...(routing === undefined ? [] : routingLines(routing)),
  ];
}

function oddities(
  run: NonNullable<RunResult["measurements"]>,
  trials: readonly TrialResult[],
): readonly string[] {
  const {
    calls,
    unknownTools = 0,
    invalidCalls = 0,
    invalidCauses = {},
    redundantCalls,
    errors,
    recoveredErrors,
    identicalRetries,
    definitions,
  } = run;
  const ofCalls = `of ${countOf(calls, "call")}`;
  const { tokens, unused } = definitions ?? { tokens: 0, unused: 0 };
  const retried = identicalRetries === 0 ? "" : `, ${formatInteger(identicalRetries)} repeated unchanged`;
  const isAttacked = trials.some(({ attack }) => attack !== undefined && attack.outcome !== "none");
  const injected = isAttacked ? ", with those that attacks inject" : "";
  const claiming = namesOf(trials, ({ unsupportedClaims = [] }) =>
    unsupportedClaims.map(({ tool, text }) => `${JSON.stringify(text)} (${tool})`),
  );
  const ignoring = namesOf(trials, ({ ignoredErrors }) => ignoredErrors);
  return [
    ...(unknownTools === 0 ? [] : [`unknown tools: ${formatInteger(unknownTools)} ${ofCalls}`]),
    ...(invalidCalls === 0
      ? []
      : [
          `invalid arguments: ${formatInteger(invalidCalls)} ${ofCalls} (${Object.entries(invalidCauses)
            .map(([cause, count]) => `${cause}: ${formatInteger(count)}`)
            .join(", ")})`,
        ]),
    ...(redundantCalls === 0
      ? []
      : [`redundant: ${formatInteger(redundantCalls)} ${ofCalls} repeat one and get the same result`]),
    ...(errors === 0
      ? []
      : [
          `errors: ${formatInteger(errors)} ${ofCalls}${injected}, ${formatInteger(recoveredErrors)} recovered${retried}`,
        ]),
    ...(claiming === "" ? [] : [`claims that the record does not show: ${claiming}`]),
    ...(ignoring === "" ? [] : [`errors that the answer ignores: ${ignoring}`]),
    ...(unused < manyTokens
      ? []
      : [
          `definitions: about ${formatInteger(tokens)} tokens a request, ${percent(unused / tokens)} % of them of tools that no trial called (estimate)`,
        ]),
  ];
}

/** The first of each trial that has some, with the trial. */
function namesOf(
  trials: readonly TrialResult[],
  find: (measured: NonNullable<TrialResult["measurements"]>) => readonly string[],
): string {
  const found = trials.flatMap(({ id, measurements }) => {
    const [first] = measurements === undefined ? [] : find(measurements);
    return first === undefined ? [] : [`${clipText(id, 20)} ${clipText(first, 160)}`];
  });
  const rest = found.length - maxShownTrials;
  const more = rest > 0 ? `; and ${countOf(rest, "more trial")}` : "";
  return `${found.slice(0, maxShownTrials).join("; ")}${more}`;
}

function percent(share: number): number {
  return Math.round(100 * share);
}

type Routing = NonNullable<RunResult["routing"]>;

function routingLines({ tools, servers, skills, nearMisses }: Routing): readonly string[] {
  const near =
    nearMisses === 0 ? "" : `, ${countOf(nearMisses, "time")} with the right call after a wrong one`;
  return [
    ...(tools === undefined ? [] : matrixLines(tools, "tool", near)),
    ...(servers === undefined || tools !== undefined ? [] : matrixLines(servers, "server", near)),
    ...(skills === undefined ? [] : matrixLines(skills, "skill", "")),
  ];
}

function matrixLines(shown: NonNullable<Routing["tools"]>, what: string, near: string): readonly string[] {
  const { value, low, high, trials } = shown.correct;
  const wrong = shown.matrix
    .filter(({ expected, called }) => expected !== called)
    .toSorted((a, b) => b.trials - a.trials);
  const rest = wrong.length - maxShownCells;
  return [
    `routing: ${Math.round(value * trials)} of ${countOf(trials, "trial")} led to the expected ${what} (${percent(value)} %, 95 % interval ${percent(low)} to ${percent(high)} %)${near}`,
    ...wrong
      .slice(0, maxShownCells)
      .map(
        ({ expected, called, trials: count }) =>
          `routing: ${clipText(expected, 80)} expected, ${clipText(called, 80)} called: ${countOf(count, "trial")}`,
      ),
    ...(rest > 0 ? [`routing: and ${countOf(rest, "more pair")}`] : []),
  ];
}

/** Who judged, and how far it agrees with people. */
function describeJudge(judge: JudgeSummary): string {
  const { grader, model, graded, passed, calibration, correctedRate: corrected, second } = judge;
  const who = visibleText(`${grader}, judged by ${model}`);
  const other = second === undefined ? "" : describeSecond(second);
  if (calibration === null)
    return `${who}: uncalibrated, so it is not known how far it agrees with people (mcpvals judge calibrate)${other}`;
  const { labels, agreement, sensitivity, specificity, kappa } = calibration;
  const shown = [
    ["agreement", agreement],
    ["sensitivity", sensitivity],
    ["specificity", specificity],
    ["kappa", kappa],
  ] as const;
  const figures = shown.flatMap(([name, share]) =>
    share === undefined ? [] : [`${name} ${share.value.toFixed(2)}`],
  );
  const rate =
    corrected === undefined
      ? ""
      : `; passed ${passed} of ${graded}, corrected ${corrected.value.toFixed(2)} [${corrected.low.toFixed(2)}, ${corrected.high.toFixed(2)}]`;
  return `${who}: ${figures.join(", ")} with ${countOf(labels, "label")}${rate}${other}`;
}

function describeSecond({ model, graded, agreement, kappa }: NonNullable<JudgeSummary["second"]>): string {
  const agreed = Math.round((agreement?.value ?? 0) * graded);
  const beyond = kappa === undefined ? "" : `, kappa ${kappa.value.toFixed(2)}`;
  return `; the second judge ${visibleText(model)} agrees on ${agreed} of ${countOf(graded, "trial")}${beyond}`;
}
