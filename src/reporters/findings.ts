import { bySeverity, countFindings, type Finding, type Severity } from "../core/lint/finding.ts";
import type { RunResult } from "../core/report/result.ts";
import { visibleText } from "../core/text/visible-text.ts";
import { type Page, paintText, type Tone } from "./text.ts";

const marks: Readonly<Record<Severity, { readonly mark: string; readonly tone: Tone }>> = {
  error: { mark: "✗", tone: "bad" },
  warning: { mark: "!", tone: "warn" },
  info: { mark: "·", tone: "dim" },
};

/** The findings of a run, all servers together. */
export function findingsOf({ trials }: Pick<RunResult, "trials">): readonly Finding[] {
  return bySeverity(trials.flatMap(({ grades }) => grades.flatMap(({ findings = [] }) => findings)));
}

/** The findings for people: grouped by what they are about, errors first. */
export function findingLines(findings: readonly Finding[], page: Page): string[] {
  if (findings.length === 0) return [];
  const { style } = page;
  const groups = [...Map.groupBy(findings, (finding) => `${finding.server}  ${placeText(finding)}`.trim())];
  return [
    `${style.strong("Findings")}  ${style.dim(countFindings(findings))}`,
    ...groups.flatMap(([place, group]) => [
      "",
      `  ${style.strong(visibleText(place))}`,
      ...group.flatMap(({ severity, message, code, fix }) => {
        const { mark, tone } = marks[severity];
        return [
          `  ${style[tone](mark)} ${visibleText(message)}  ${style.dim(code)}`,
          ...paintText({ text: visibleText(fix), tone: "dim" }, 4, page),
        ];
      }),
    ]),
  ];
}

/** What a finding is about, in a few words: `tool search, parameter query`; empty for the server. */
export function placeText({ place }: Finding): string {
  const { tool, resource, prompt, parameter, pointer } = place;
  const parts = Object.entries({ tool, resource, prompt, parameter, at: pointer });
  return parts.flatMap(([kind, name]) => (name === undefined ? [] : [`${kind} ${name}`])).join(", ");
}
