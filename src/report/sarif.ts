import { alikeFindings } from "../model/alike-findings.ts";
import { exact, type JsonObject } from "../base/json.ts";
import type { Task } from "../model/task.ts";
import { findingsOf, type RunFinding, type Severity } from "../model/finding.ts";
import { owaspTop10, type RuleTable, type Weakness } from "../check/check-view.ts";
import { type Reporter, reporterAtEnd, type ReporterOutput, type RunEnd } from "./reporter.ts";
import { blocksOf } from "../base/json-pieces.ts";
import type { TrialResult } from "../model/result.ts";
import { visibleJson, clipText } from "../base/visible-text.ts";
import { placesText } from "./findings.ts";
import { fullTitle, trialReason, warningRemarks } from "./text.ts";
import { type Gate, gateText } from "./gates.ts";

const maxShownMessage = 1000;
const levels: Readonly<Record<Severity, string>> = { error: "error", warning: "warning", info: "note" };

/**
 * Writes SARIF 2.1.0 at the end, for code scanning: a result for each finding (alike ones of a server together), for each trial that failed or could not be
 * judged, for each threshold that was not reached, and for each warning. Its place is the file that declares the server or the task.
 */
export function sarifReporter(output: ReporterOutput): Reporter {
  return reporterAtEnd(async (end, { tasks }) => {
    // Most runs have no findings, and no other reporter needs the rules.
    const { findingRules } = await import("../check/catalogue.ts");
    for (const block of blocksOf(documentPieces(end, tasks, findingRules))) output.write(block);
  });
}

/** The results one by one, since a large run's document would not fit one string. */
function* documentPieces(
  { result }: RunEnd,
  tasks: ReadonlyMap<string, Task>,
  known: RuleTable,
): Generator<string> {
  const { id, trials, environment, verdict, startedAt, durationMs, gradedFrom } = result;
  const findings = findingsOf(trials);
  const broken = trials.filter(
    ({ verdict: each, form }) =>
      each === "error" || each === "timeout" || (each === "fail" && form !== "check"),
  );
  const missed = (result.gates ?? []).filter((gate) => gate.verdict !== "pass");
  const warnings = warningRemarks(trials);
  const driver = {
    name: "mcpvals",
    version: environment.mcpvals,
    rules: [
      ...rulesOf(findings, broken, known),
      ...(missed.length === 0 ? [] : [thresholdRule]),
      ...(warnings.length === 0 ? [] : [warningRule]),
    ],
  };
  const ended = new Date(Date.parse(startedAt) + durationMs).toISOString();
  const invocation = {
    executionSuccessful: verdict === "pass" || verdict === "fail",
    startTimeUtc: startedAt,
    endTimeUtc: ended,
  };
  yield '{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{\n';
  yield `"tool":${json({ driver })},\n`;
  yield `"automationDetails":${json({ id: `mcpvals/${id}` })},\n`;
  const taxonomies = taxonomiesOf(findings, known);
  if (taxonomies.length > 0) yield `"taxonomies":${json(taxonomies)},\n`;
  if (gradedFrom !== undefined) yield `"properties":${json({ gradedFrom })},\n`;
  yield `"invocations":${json([invocation])},\n"results":[`;
  let before = "\n";
  const taskOf = new Map(trials.map((trial) => [trial.id, tasks.get(trial.task)]));
  // The servers of a check may be in different files.
  const byServer = [...Map.groupBy(findings, ({ server }) => server).values()];
  for (const group of byServer.flatMap(alikeFindings)) {
    yield before + json(findingResult(group, taskOf.get(group[0].trial)));
    before = ",\n";
  }
  for (const trial of broken) {
    // A run that passes, as its pass rate is high enough, has no errors.
    const level = verdict === "pass" ? "warning" : "error";
    yield before + json(trialProblem(trial, level, tasks.get(trial.task)));
    before = ",\n";
  }
  for (const gate of missed) {
    yield before + json(gateProblem(gate));
    before = ",\n";
  }
  for (const [text, [first]] of warnings) {
    yield before + json(trialWarning(text, first, tasks));
    before = ",\n";
  }
  yield "\n]}]}\n";
}

function json(value: unknown): string {
  return visibleJson(JSON.stringify(value));
}

/** The rules that results name: those of findings with their documentation, and one for trials. */
function rulesOf(
  findings: readonly RunFinding[],
  broken: readonly TrialResult[],
  known: RuleTable,
): readonly JsonObject[] {
  const codes = new Set(findings.map(({ code }) => code));
  const described = [...codes].map((code): JsonObject => {
    const rule = known[code];
    if (rule === undefined) return { id: code };
    const { title, why, fix, bad, good, severity, source, weakness } = rule;
    const text = `${why} ${fix} Source: ${source}`;
    return {
      id: code,
      shortDescription: { text: title },
      fullDescription: { text: why },
      help: {
        text,
        markdown: `${why}\n\n${fix}\n\n\`\`\`text\nbad:  ${bad}\ngood: ${good}\n\`\`\`\n\nSource: ${source}`,
      },
      defaultConfiguration: { level: levels[severity] },
      properties: { tags: [code.slice(0, code.indexOf("/")), ...weaknessTags(weakness)] },
      ...(weakness === undefined ? {} : { relationships: relationshipsOf(weakness) }),
    };
  });
  const trial = { id: "trial", shortDescription: { text: "A trial failed or could not be judged" } };
  return broken.length === 0 ? described : [...described, trial];
}

/** As GitHub reads them. */
function weaknessTags(weakness: Weakness | undefined): readonly string[] {
  if (weakness === undefined) return [];
  const { owasp, cwe } = weakness;
  return [
    "security",
    `external/cwe/cwe-${String(cwe).padStart(3, "0")}`,
    ...(owasp === undefined ? [] : [`external/owasp-mcp/${owasp.toLowerCase()}`]),
  ];
}

function relationshipsOf({ owasp, cwe }: Weakness): readonly JsonObject[] {
  const ids = { CWE: `CWE-${cwe}`, ...exact({ "OWASP MCP Top 10": owasp }) };
  return Object.entries(ids).map(([name, id]) => ({
    target: { id, toolComponent: { name } },
    kinds: ["relevant"],
  }));
}

function taxa(ids: readonly string[]): readonly JsonObject[] {
  return [...new Set(ids)].toSorted().map((id) => ({ id }));
}

/** The lists of weaknesses that rules name, with what they name of them. */
function taxonomiesOf(findings: readonly RunFinding[], known: RuleTable): readonly JsonObject[] {
  const named = [...new Set(findings.map(({ code }) => code))].flatMap((code) => known[code]?.weakness ?? []);
  if (named.length === 0) return [];
  return [
    { name: "CWE", organization: "MITRE", taxa: taxa(named.map(({ cwe }) => `CWE-${cwe}`)) },
    {
      name: "OWASP MCP Top 10",
      version: "2025",
      organization: "OWASP",
      taxa: taxa(named.flatMap(({ owasp }) => owasp ?? [])).map((taxon) => ({
        ...taxon,
        shortDescription: { text: owaspTop10[taxon["id"] as keyof typeof owaspTop10] },
      })),
    },
  ];
}

/** One result for findings that are alike, with all their places. */
function findingResult(
  findings: readonly [RunFinding, ...(readonly RunFinding[])],
  task: Task | undefined,
): JsonObject {
  const [first] = findings;
  const { code, title, severity, message, fix, place, accepted } = first;
  const [name = [], ...others] = findings.map(logicalName);
  return {
    ruleId: code,
    level: levels[severity],
    message: {
      text: `${title}: ${clipText(message, maxShownMessage)} (${clipText(placesText(findings, true), maxShownMessage)}). ${clipText(fix, maxShownMessage)}`,
    },
    locations: [location(task, name, others.slice(0, maxShownPlaces))],
    ...(accepted === undefined
      ? {}
      : { suppressions: [{ kind: "external", justification: `${accepted.date}: ${accepted.reason}` }] }),
    partialFingerprints: {
      "mcpvals/v1": JSON.stringify([code, ...subjectOf(first), place.parameter ?? "", place.pointer ?? ""]),
    },
  };
}

/** Further places of a result: who wants all has the JSON report. */
const maxShownPlaces = 100;

/** The server, and the tool, resource or prompt. */
function subjectOf({ server, place: { tool, resource, prompt } }: RunFinding): readonly string[] {
  const subject = Object.entries({ tool, resource, prompt }).flatMap(([kind, name]) =>
    name === undefined ? [] : [`${kind}:${name}`],
  );
  return [server, ...subject];
}

function logicalName(finding: RunFinding): readonly string[] {
  const { parameter } = finding.place;
  return [...subjectOf(finding), ...(parameter === undefined ? [] : [parameter])];
}

const warningRule = {
  id: "trial-warning",
  shortDescription: { text: "A verdict says less than it seems to, or something went wrong beside it" },
};

/** A warning, at the place of the first trial that has it. */
function trialWarning(
  text: string,
  first: TrialResult | undefined,
  tasks: ReadonlyMap<string, Task>,
): JsonObject {
  const title = first === undefined ? "" : clipText(fullTitle(first), 200);
  const message = clipText(text, maxShownMessage);
  return {
    ruleId: warningRule.id,
    level: "warning",
    message: { text: `${title}: ${message}` },
    locations: [location(tasks.get(first?.task ?? ""), [title])],
    partialFingerprints: { "mcpvals/v1": JSON.stringify([warningRule.id, title, message]) },
  };
}

const thresholdRule = {
  id: "threshold",
  shortDescription: { text: "A threshold of the run was not reached, or nothing could be compared with it" },
};

function gateProblem(gate: Gate): JsonObject {
  return {
    ruleId: thresholdRule.id,
    level: "error",
    message: { text: gateText(gate) },
    locations: [location(undefined, ["thresholds", clipText(gate.name, 200)])],
    partialFingerprints: { "mcpvals/v1": JSON.stringify(["threshold", gate.name]) },
  };
}

function trialProblem(trial: TrialResult, level: string, task: Task | undefined): JsonObject {
  const { verdict, task: name, agent, variant } = trial;
  return {
    ruleId: "trial",
    level,
    message: { text: `${fullTitle(trial)}: ${verdict}: ${trialReason(trial)}` },
    locations: [location(task, [name])],
    partialFingerprints: { "mcpvals/v1": JSON.stringify([name, agent, variant ?? ""]) },
  };
}

/** Where a result is: code scanning needs a file, and a tool of a server has none but the one that names the server. */
function location(
  task: Task | undefined,
  names: readonly string[],
  others: readonly (readonly string[])[] = [],
): JsonObject {
  const { file, line = 1 } = task?.location ?? {};
  const uri = encodeURI(clipText(file ?? names[0] ?? "mcpvals", maxShownMessage)).replaceAll("\\", "/");
  return {
    physicalLocation: { artifactLocation: { uri }, region: { startLine: line } },
    logicalLocations: [names, ...others].map((each) => ({ fullyQualifiedName: each.join("/") })),
  };
}
