import { alikeFindings } from "../model/alike-findings.ts";
import type { Task } from "../model/task.ts";
import { type Reporter, reporterAtEnd, type ReporterOutput, type RunEnd } from "./reporter.ts";
import { findingsOf } from "../model/finding.ts";
import { visibleText, clipText } from "../base/visible-text.ts";
import type { TrialResult } from "../model/result.ts";
import type { TraceEvent } from "../model/event.ts";
import { agentSummary } from "./explain.ts";
import { decisionText } from "./decisions.ts";
import { markdownText } from "./markdown.ts";
import { hasSeveralServers, placesText } from "./findings.ts";
import {
  describeCoverage,
  fullTitle,
  recordText,
  remarkSubject,
  type Remarks,
  skipRemarks,
  trialReason,
  verdictReason,
  byResultSentence,
  variantName,
  varietyOf,
  warningRemarks,
} from "./text.ts";
import { gateText } from "./gates.ts";
import { rateText } from "./rate-text.ts";
import { taskKey } from "./rates.ts";

/** GitHub shows ten annotations of a kind for a step; the summary of the job has the others. */
const maxShownAnnotations = 50;
const maxShownMessage = 600;

/**
 * Writes workflow commands of GitHub Actions at the end: an annotation for each error and warning of a check, and for each task (of each
 * agent and variant) of which a trial failed or could not be judged; what the run decided, or could not; what was skipped and warned of; then the verdict. The report in Markdown becomes the summary of the job.
 */
export function githubReporter(output: ReporterOutput): Reporter {
  return reporterAtEnd((end, { tasks, coverage }) => {
    output.write(annotations(end, tasks).join(""));
    output.summary?.(markdownText(end, tasks, { coverage }));
  });
}

function annotations({ result, evidence }: RunEnd, tasks: ReadonlyMap<string, Task>): string[] {
  const findings = findingsOf(result.trials).filter(({ severity }) => severity !== "info");
  const variety = { ...varietyOf(result.trials), attempts: false };
  const attempts = Map.groupBy(result.trials, taskKey);
  const broken = Map.groupBy(
    result.trials.filter(
      ({ verdict, form }) =>
        verdict === "error" || verdict === "timeout" || (verdict === "fail" && form !== "check"),
    ),
    taskKey,
  );
  const remarks = (kind: "warning" | "notice", of: (trials: readonly TrialResult[]) => Remarks): string[] =>
    of(result.trials).map(([text, group]) => {
      const { file, line } = tasks.get(group[0]?.task ?? "")?.location ?? {};
      const title = remarkSubject(group, varietyOf(result.trials));
      return annotation(kind, { file, line, title }, kind === "notice" ? `skipped: ${text}` : text);
    });
  const lines = [
    ...[...broken].flatMap(([key, [trial]]) => {
      if (trial === undefined) return [];
      const all = attempts.get(key) ?? [];
      const rate = all.length > 1 ? `${rateText(all, " passed")}; attempt ${trial.attempt}: ` : "";
      const { file, line } = tasks.get(trial.task)?.location ?? {};
      const title = [fullTitle(trial), variantName(trial, variety)].filter((part) => part !== "").join(" · ");
      // A run that passes, as its pass rate is high enough, has no errors.
      const kind = result.verdict === "pass" ? "warning" : "error";
      return annotation(
        kind,
        { file, line, title },
        `${rate}${reasonOf(trial, evidence.get(trial.id) ?? [])}`,
      );
    }),
    ...(result.gates ?? []).flatMap((gate) =>
      gate.verdict === "pass"
        ? []
        : [annotation("error", { title: `threshold ${visibleText(gate.name)}` }, gateText(gate))],
    ),
    ...(result.decisions ?? []).map((decision) => {
      const kind = decision.verdict === "undecided" ? "error" : "notice";
      return annotation(kind, { title: "decision" }, decisionText(decision));
    }),
    ...alikeFindings(findings).map((group) => {
      const [{ code, title, severity, message, fix }] = group;
      const where = placesText(group, hasSeveralServers(result.trials));
      const kind = severity === "error" ? "error" : "warning";
      return annotation(kind, { title: code }, `${title}: ${where}: ${message}. ${fix}`);
    }),
    ...remarks("warning", warningRemarks),
    ...remarks("notice", skipRemarks),
  ];
  const rest = lines.length - maxShownAnnotations;
  const reason = verdictReason(result);
  const used = describeCoverage(result.coverage ?? {});
  const graded = recordText(result);
  const byResult = byResultSentence(result.trials);
  const verdict = [
    `${result.verdict.toUpperCase()}${reason === "" ? "" : `: ${reason}`}`,
    ...(rest > 0 ? [`(and ${rest} more)`] : []),
    ...(used === "" ? [] : [`· used ${used}`]),
    ...(graded === "" ? [] : [`· ${graded}`]),
    ...(byResult === "" ? [] : [`· ${byResult}`]),
  ].join(" ");
  return [
    ...lines.slice(0, maxShownAnnotations),
    annotation(result.verdict === "pass" ? "notice" : "error", { title: "mcpvals" }, verdict),
  ];
}

function reasonOf(trial: TrialResult, events: readonly TraceEvent[]): string {
  const reason = trialReason(trial);
  const did = agentSummary(trial, events);
  // What the agent did must not be what is cut off.
  return did === "" ? reason : `${clipText(reason, maxShownMessage / 2)} · ${did}`;
}

/** One workflow command, on a line of its own. */
function annotation(
  kind: "error" | "warning" | "notice",
  properties: Readonly<Record<string, string | number | undefined>>,
  message: string,
): string {
  const given = Object.entries(properties).flatMap(([name, value]) =>
    value === undefined
      ? []
      : [`${name}=${escaped(String(value)).replaceAll(":", "%3A").replaceAll(",", "%2C")}`],
  );
  return `::${kind} ${given.join(",")}::${escaped(message)}\n`;
}

/** A percent sign begins an escape sequence of workflow commands. */
function escaped(text: string): string {
  return clipText(text, maxShownMessage).replaceAll("%", "%25");
}
