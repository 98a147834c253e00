import { type ClientCell, type ClientRow, clientTable } from "../check/client-table.ts";
import { alikeFindings } from "../model/alike-findings.ts";
import type { Finding, FindingPlace, RunFinding, Severity } from "../model/finding.ts";
import { type CheckKind, partsOf, type ServerSummary } from "../model/check.ts";
import type { Task } from "../model/task.ts";
import type { TrialResult } from "../model/result.ts";
import { countOf, formatInteger, visibleText, clipText } from "../base/visible-text.ts";
import { cutToWidth, displayWidth, padToWidth, type Page, paintText, type Tone } from "../base/columns.ts";

const marks: Readonly<Record<Severity, { readonly mark: string; readonly tone: Tone }>> = {
  error: { mark: "✗", tone: "bad" },
  warning: { mark: "!", tone: "warn" },
  info: { mark: "·", tone: "dim" },
};
const titles: Readonly<Record<Severity, string>> = { error: "Errors", warning: "Warnings", info: "Info" };

/** From so many places on, a rule is shown once with its places, not once at each of them; one that says the same of two, too. */
const fewestShared = 3;
const maxShownGroups = 40;
const maxShownNames = 12;
const maxShownMessages = 3;
const maxShownMessage = 400;

/** The findings for people: errors first, then by what they are about. A finding of many places is shown once. */
export function findingLines(findings: readonly RunFinding[], naming: boolean, page: Page): string[] {
  const sections = [...Map.groupBy(findings, ({ severity }) => severity)].map(([severity, group]) => [
    page.style.strong(titles[severity]),
    ...sectionLines(group, naming, page),
  ]);
  return sections.flatMap((lines, index) => (index === 0 ? lines : ["", ...lines]));
}

function sectionLines(findings: readonly RunFinding[], naming: boolean, page: Page): string[] {
  const subjectOf = (finding: RunFinding): string => subjectText(finding, naming);
  const subjectsOf = (group: readonly RunFinding[]): number => new Set(group.map(subjectOf)).size;
  const shared = new Set(
    [
      ...alikeFindings(findings).filter((group) => subjectsOf(group) > 1),
      ...[...Map.groupBy(findings, ({ code }) => code).values()].filter(
        (group) => subjectsOf(group) >= fewestShared,
      ),
    ].flatMap((group) => group.map(({ code }) => code)),
  );
  const several = findings.filter(({ code }) => shared.has(code));
  const own = findings.filter(({ code }) => !shared.has(code));
  const [wide, narrow] = [true, false].map((isWide) => [
    ...Map.groupBy(
      own.filter(({ place }) => isServerWide(place) === isWide),
      subjectOf,
    ),
  ]);
  const heading = several.every(({ place }) => place.tool !== undefined) ? "several tools" : "several places";
  const groups = [
    ...(wide ?? []),
    ...(several.length === 0 ? [] : [[heading, several] as const]),
    ...(narrow ?? []),
  ];
  const hidden = groups.slice(maxShownGroups).flatMap(([, group]) => group).length;
  return [
    ...groups
      .slice(0, maxShownGroups)
      .flatMap(([subject, group]) => [
        "",
        ...paintText({ text: subject, tone: "strong" }, 2, page),
        ...[...Map.groupBy(group, ({ code }) => code).values()].flatMap((same) =>
          ruleLines(same, subjectOf, page),
        ),
      ]),
    ...(hidden > 0 ? ["", page.style.dim(`  and ${formatInteger(hidden)} more`)] : []),
  ];
}

/** One rule's findings: what is wrong, where, and what to do. */
function ruleLines(
  findings: readonly RunFinding[],
  subjectOf: (finding: RunFinding) => string,
  page: Page,
): string[] {
  const [first] = findings;
  if (first === undefined) return [];
  const { style } = page;
  const { code, title, severity, fix, trial, evidence } = first;
  const { mark, tone } = marks[severity];
  const isOne = new Set(findings.map(subjectOf)).size === 1;
  const nameOf = (finding: RunFinding): string =>
    isOne ? detailText(finding) : `${subjectOf(finding).replace(/^tool /, "")}${parameterText(finding)}`;
  const messages = [...Map.groupBy(findings, ({ message }) => message)].toSorted(
    ([, some], [, others]) => others.length - some.length,
  );
  const event = evidence[0] === undefined ? "" : ` #${evidence[0]}`;
  const source = severity === "info" ? "" : ` · ${trial}${event}`;
  const rest = messages.slice(maxShownMessages).flatMap(([, same]) => same);
  const heading = paintText({ text: `${mark} ${title}`, lead: 1, leadTone: tone }, 2, page, 2);
  const reference = visibleText(`${code}${source}`);
  const isShort = displayWidth(heading.at(-1) ?? "") + displayWidth(reference) + 2 <= page.width;
  return [
    ...heading.slice(0, -1),
    ...heading.slice(-1).map((line) => (isShort ? `${line}  ${style.dim(reference)}` : line)),
    ...(isShort ? [] : [`    ${style.dim(reference)}`]),
    ...messages.slice(0, maxShownMessages).flatMap(([message, same]) => {
      const names = namesText(same.map(nameOf));
      const text = `${names === "" ? "" : `${names}: `}${clipText(message, maxShownMessage)}`;
      return paintText({ text }, 4, page, 2);
    }),
    ...(rest.length === 0 ? [] : paintText({ text: othersText(rest.map(nameOf)) }, 4, page, 2)),
    ...(severity === "info" ? [] : paintText({ text: clipText(fix, maxShownMessage), tone: "dim" }, 4, page)),
  ];
}

/** Different names in one line: all of few, or the first and how many more. */
function namesText(all: readonly string[], separator = ", "): string {
  const names = [...new Set(all)].filter((name) => name !== "");
  const rest = names.length - maxShownNames;
  return `${names.slice(0, maxShownNames).join(separator)}${rest > 0 ? ` and ${formatInteger(rest)} more` : ""}`;
}

/** What has other messages of the same rule: by name, or only counted. */
function othersText(names: readonly string[]): string {
  const text = namesText(names);
  return text === "" ? `and ${formatInteger(names.length)} more` : `also ${text}`;
}

function isServerWide({ tool, resource, prompt }: FindingPlace): boolean {
  return tool === undefined && resource === undefined && prompt === undefined;
}

/** What a finding is about: the server, or a tool, resource or prompt of it. */
function subjectText({ server, place: { tool, resource, prompt } }: RunFinding, naming: boolean): string {
  const parts = Object.entries({ tool, resource, prompt }).flatMap(([kind, name]) =>
    name === undefined ? [] : [`${kind} ${clipText(name, 80)}`],
  );
  if (parts.length === 0) return naming ? `server ${visibleText(server)}` : "the server";
  return [...(naming ? [visibleText(server)] : []), parts.join(", ")].join(" › ");
}

/** The parameter, after the name of what has it. */
function parameterText({ place: { parameter } }: RunFinding): string {
  return parameter === undefined ? "" : ` (${clipText(parameter, 80)})`;
}

function detailText({ place: { parameter, pointer } }: RunFinding): string {
  if (parameter !== undefined) return `parameter ${clipText(parameter, 80)}`;
  return pointer === undefined ? "" : clipText(pointer, 120);
}

/** Where a finding is, in a few words: `tool search, parameter query`; with the server where a run has several. */
function placeText({ server, place }: Finding, naming = false): string {
  const { tool, resource, prompt, parameter, pointer } = place;
  const subject = { tool, resource, prompt, parameter, at: parameter === undefined ? pointer : undefined };
  const parts = Object.entries({ server: naming ? server : undefined, ...subject }).flatMap(([kind, name]) =>
    name === undefined ? [] : [`${kind} ${name}`],
  );
  return parts.length === 0 ? "the server" : parts.join(", ");
}

/** Where findings that are alike are: `tool search, parameter query; tool read`. */
export function placesText(findings: readonly Finding[], naming = false): string {
  return namesText(
    findings.map((finding) => placeText(finding, naming)),
    "; ",
  );
}

/** Whether a check is of several servers, so that its findings have to name theirs. */
export function hasSeveralServers(trials: readonly Pick<TrialResult, "suite">[]): boolean {
  return new Set(trials.map(({ suite }) => suite)).size > 1;
}

const maxShownTools = 20;
const leastNameWidth = 12;
const tones: Readonly<Record<ClientCell, Tone>> = {
  ok: "dim",
  refused: "bad",
  changed: "warn",
  invalid: "bad",
};

/** The table of tools and clients; empty when no client refuses or changes anything. */
export function clientLines(findings: readonly RunFinding[], naming: boolean, page: Page): string[] {
  const { style, width } = page;
  const rows = clientTable(findings, naming);
  const [first] = rows;
  if (first === undefined) return [];
  const columns = Object.keys(first.effects);
  const widths = columns.map((name) => Math.max(7, displayWidth(name)));
  const wanted = Math.max(
    7,
    ...rows.slice(0, maxShownTools).map(({ tool }) => displayWidth(visibleText(tool))),
  );
  const room = Math.min(width, 140) - widths.reduce((sum, each) => sum + each + 2, 2);
  if (room < leastNameWidth) return clientList(rows, page);
  const nameWidth = Math.max(leastNameWidth, Math.min(wanted, room, 40));
  const headings = columns.map((name, index) => padToWidth(name, widths[index] ?? 0)).join("  ");
  const rest = rows.length - maxShownTools;
  return [
    `${style.strong(padToWidth("Clients", nameWidth + 2))}  ${style.dim(headings.trimEnd())}`,
    ...rows.slice(0, maxShownTools).map(({ tool, effects }) => {
      const cells = Object.values(effects).map((effect, index) =>
        style[tones[effect]](padToWidth(effect, widths[index] ?? 0)),
      );
      return `  ${padToWidth(cutToWidth(visibleText(tool), nameWidth), nameWidth)}  ${cells.join("  ")}`.trimEnd();
    }),
    ...(rest > 0 ? [style.dim(`  and ${countOf(rest, "more tool")}`)] : []),
  ];
}

/** The same without columns, for a page that is too narrow for them. */
function clientList(rows: readonly ClientRow[], page: Page): string[] {
  const rest = rows.length - maxShownTools;
  return [
    page.style.strong("Clients"),
    ...rows.slice(0, maxShownTools).flatMap(({ tool, effects }) => {
      const reported = Object.entries(effects).filter(([, effect]) => effect !== "ok");
      const text = `${clipText(tool, 80)}: ${reported.map((each) => each.join(" ")).join(", ")}`;
      return paintText({ text }, 2, page, 2);
    }),
    ...(rest > 0 ? [page.style.dim(`  and ${countOf(rest, "more tool")}`)] : []),
  ];
}

/** The servers of a check, by name, as the plan has them. */
export function checkedServers(tasks: Iterable<Task>): ReadonlyMap<string, ServerSummary> {
  return new Map(
    [...tasks].flatMap(({ check, servers: [server] }) =>
      check?.about === undefined || server === undefined ? [] : [[server, check.about] as const],
    ),
  );
}

/** A server in one line: `everything 2.0.0 · MCP 2025-11-25 · 13 tools, 7 resources, 4 prompts`. */
export function serverText({
  name,
  version,
  protocolVersion,
  tools,
  resources,
  prompts,
}: ServerSummary): string {
  const who = `${name} ${version}`.trim();
  const listed = [countOf(tools, "tool"), countOf(resources, "resource"), countOf(prompts, "prompt")];
  const facts = [who, protocolVersion === "" ? "" : `MCP ${protocolVersion}`, listed.join(", ")];
  return clipText(facts.filter((fact) => fact !== "").join(" · "), 200);
}

/** What servers touched, in a few words for each: `touches: reads ~/.ssh/id_rsa (start, prompt ask); connects to 203.0.113.7:80 (convert)`. */
export function touchedTexts(trials: readonly Pick<TrialResult, "suite" | "grades">[]): readonly string[] {
  const profiles = trials.flatMap(({ suite, grades }) =>
    grades.flatMap(({ profile }) => (profile === undefined ? [] : [{ suite, profile }])),
  );
  return profiles.map(({ suite, profile }) => {
    const whose = profiles.length === 1 ? "" : `${visibleText(suite ?? "")} `;
    const said = Object.entries(verbs).flatMap(([kind, verb]) => {
      const targets = new Map<string, string[]>();
      for (const { kind: of = "tool", name, touched } of partsOf(profile))
        for (const target of touched[kind as keyof typeof verbs])
          targets.set(target, [...(targets.get(target) ?? []), of === "tool" ? name : `${of} ${name}`]);
      if (targets.size === 0) return [];
      const texts = [...targets].map(([target, where]) => `${clipText(target, 80)} (${namesText(where)})`);
      return [`${verb} ${namesText(texts)}`];
    });
    return `${whose}touches: ${said.length === 0 ? "nothing outside of its own program" : said.join("; ")}`;
  });
}

const verbs = { read: "reads", write: "writes", run: "starts", connect: "connects to" } as const;
/** How many tools were called, and why others were not: `3 tools, 2 called, 1 not: index (no valid arguments could be made)`. */
export function calledText(
  tasks: Iterable<Task>,
  trials: readonly Pick<TrialResult, "task" | "toolsCalled">[],
): readonly string[] {
  const all = [...tasks];
  const checked = all.filter(({ check }) => check?.about !== undefined);
  const calledBy = (planned: Task | undefined): number =>
    trials.find(({ task }) => task === planned?.name)?.toolsCalled ?? 0;
  return checked.flatMap(({ check, servers: [server = ""] }) => {
    if (check?.about === undefined || check.about.tools === 0) return [];
    const { about, notCalled = [] } = check;
    const part = (kind: CheckKind): Task | undefined =>
      all.find((each) => each.suite === server && each.check?.kind === kind);
    const [calls, security] = [part("calls"), part("security")];
    const names = new Set(calls?.check?.calls?.map(({ tool }) => tool));
    const missing = names.size - calledBy(calls);
    const inSandbox = security?.check?.confined === true ? calledBy(security) : 0;
    const planned = [...(security?.check?.calls ?? []), ...(security?.check?.reads ?? [])];
    const hostile = countOf(planned.filter(({ attack }) => attack !== undefined).length, "hostile call");
    const besides =
      inSandbox === 0
        ? ""
        : `; the part security called ${formatInteger(inSandbox)} in the sandbox (${hostile} planned)`;
    const whose = checked.length === 1 ? "" : `${visibleText(server)}: `;
    const tools = `${whose}${countOf(about.tools, "tool")}`;
    const left = [
      ...[...Map.groupBy(notCalled, ({ reason }) => reason)].map(([reason, same]) => ({
        reason,
        names: `: ${namesText(same.map(({ tool }) => clipText(tool, 80)))}`,
        length: same.length,
      })),
      ...(missing === 0 ? [] : [{ reason: "the calls ended before", names: "", length: missing }]),
    ];
    const called = about.tools - notCalled.length - missing;
    if (called <= 0 && left.length === 1) return [`${tools}, none called: ${left[0]?.reason}${besides}`];
    const reasons = left.map(
      ({ reason, names, length }) => `${formatInteger(length)} not${names} (${reason})`,
    );
    const why = reasons.length === 0 ? "" : `, ${reasons.join(", ")}`;
    return [`${tools}, ${called <= 0 ? "none" : formatInteger(called)} called${why}${besides}`];
  });
}
