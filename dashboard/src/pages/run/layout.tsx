import { alikeFindings, countFindings } from "../../../../src/model/alike-findings.ts";
import { getRouteApi, Link, Outlet } from "@tanstack/react-router";
import { createContext, type ReactElement, type ReactNode, useContext, useMemo } from "react";
import { metricOf, roundMeasured, runLimits } from "../../../../src/graders/measurements/metrics.ts";
import { visibleOnPage } from "../../../../src/base/visible-text.ts";
import type { RunDocument } from "../../../../src/report/documents/documents.ts";
import { DateTime, Duration, Elapsed } from "../../components/numbers.tsx";
import { PageTitle } from "../../components/page-title.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Loaded } from "../../components/states.tsx";
import { tabStyle } from "../../components/tabs.tsx";
import { statusCounts, statusOf, VerdictBadge } from "../../components/verdict-badge.tsx";
import { VerdictCounts } from "../../components/verdict-counts.tsx";
import { counted, formatNumber, formatPrecise, formatSource, selectionOf } from "../../format.ts";
import { useRun, useRuns } from "../../queries.ts";

const route = getRouteApi("/runs/$run");
const RunContext = createContext<RunDocument | undefined>(undefined);

/** The run that the views inside {@link RunLayout} show. */
export function useShownRun(): RunDocument {
  const run = useContext(RunContext);
  if (run === undefined) throw new Error("there is no RunLayout around this component");
  return run;
}

/** The head of a run, and links to its views. */
export function RunLayout(): ReactElement {
  const { run: id } = route.useParams();
  return (
    <Loaded query={useRun(id)} what="the run">
      {(run) => (
        <RunContext value={run}>
          <RunHead run={run} />
          <Views run={run} />
          <Outlet />
        </RunContext>
      )}
    </Loaded>
  );
}

function RunHead({ run }: { readonly run: RunDocument }): ReactElement {
  const counts = useMemo(() => statusCounts(run.trials), [run.trials]);
  const { data } = useRuns();
  const before = data?.runs.filter(
    ({ source, kind, servers, startedAt }) =>
      source !== undefined &&
      source === run.source &&
      kind === run.kind &&
      // A check may be of one of the servers of a file.
      (kind === "run" || servers.some((server) => run.servers.includes(server))) &&
      Date.parse(startedAt) < Date.parse(run.startedAt),
  );
  const earlier = before?.find((each) => selectionOf(each) === selectionOf(run)) ?? before?.[0];
  return (
    <>
      <PageTitle title={run.name}>
        <VerdictBadge status={statusOf(run)} large />
        <VerdictCounts counts={counts} />
        {earlier !== undefined && (
          <Link to="/compare" search={{ a: earlier.id, b: run.id }} className="ml-auto">
            Compare with the previous run
          </Link>
        )}
      </PageTitle>
      <p className="mb-2">{verdictInWords(run)}</p>
      <dl className="text-muted mb-3 flex flex-wrap gap-x-5 gap-y-1">
        <Fact name="Started">
          <DateTime iso={run.startedAt} />
        </Fact>
        {run.durationMs !== undefined && (
          <Fact name="Duration">
            <Duration value={run.durationMs} />
          </Fact>
        )}
        {run.state === "running" && (
          <Fact name="Running for">
            <Elapsed since={run.startedAt} />
          </Fact>
        )}
        {run.gradedFrom !== undefined && (
          <Fact name="Graded again from">
            <PlainText text={run.gradedFrom} />
          </Fact>
        )}
        {run.replayed !== undefined && (
          <Fact name="Replayed">
            <PlainText text={run.replayed.join(", ")} />
          </Fact>
        )}
        {run.retryOf !== undefined && (
          <Fact name="Tried again from">
            <PlainText text={run.retryOf} />
          </Fact>
        )}
        {run.source !== undefined && (
          <Fact name="Source">
            <PlainText text={formatSource(run.source)} />
          </Fact>
        )}
        {run.agents.length > 0 && (
          <Fact name="Agents">
            <PlainText
              text={run.agents
                .map(({ name, model }) => (model === undefined ? name : `${name} (${model})`))
                .join(", ")}
            />
          </Fact>
        )}
        {/* The classes of attacks have a table. */}
        {run.variants !== undefined && run.isAttacked !== true && (
          <Fact name="Variants">
            <PlainText text={run.variants.join(", ")} />
          </Fact>
        )}
        {run.filter !== undefined && (
          <Fact name="Filter">
            <PlainText text={run.filter} />
          </Fact>
        )}
        {run.servers.length > 0 && (
          <Fact name="Servers">
            <PlainText text={run.servers.join(", ")} />
          </Fact>
        )}
      </dl>
    </>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }): ReactElement {
  return (
    <div className="flex min-w-0 gap-1.5">
      <dt>{name}</dt>
      <dd className="text-ink min-w-0 break-words">{children}</dd>
    </div>
  );
}

/** Why the run has its verdict, in a sentence. */
function verdictInWords(run: RunDocument): ReactNode {
  const { state, verdict, summary, gates = [], trials, problem, reason = "" } = run;
  if (state === "damaged") return <PlainText text={problem ?? "Its files cannot be read."} />;
  if (state === "running") {
    const ended = trials.filter(({ state: each }) => each === "ended").length;
    return `${formatNumber(ended)} of ${counted(trials.length, "trial")} have ended.`;
  }
  if (state === "cut-off" || verdict === undefined)
    return "Its process ended before it wrote a result. This is what it recorded until then; trials that were cut off or not run count as skipped.";
  if (run.kind === "check")
    return run.findings.length === 0 ? "Nothing was found." : `Found: ${countFindings(run.findings)}.`;
  const unreached = gates.filter((gate) => gate.verdict === "fail");
  const all = counted(summary?.total ?? trials.length, "trial");
  const byResult = summary?.byToolResult;
  const reported =
    byResult === undefined ? "" : ` ${formatNumber(byResult)} passed by the tool's result only.`;
  if (verdict === "pass" && run.passesBy !== undefined)
    return `${formatNumber(summary?.fail ?? 0)} of ${all} failed; the run ${toleranceInWords(run.passesBy).sentence}.${reported}`;
  if (verdict === "pass")
    return `${summary?.pass === summary?.total ? `All ${all} passed.` : `It passed with ${all}.`}${reported}`;
  if (verdict === "interrupted" || verdict === "incomplete") return <PlainText text={reason} />;
  const { fail = 0, error = 0, timeout = 0 } = summary ?? {};
  const broken = error + timeout === 0 ? "" : `, ${formatNumber(error + timeout)} had an error or a timeout`;
  const failed = fail > 0 ? `${formatNumber(fail)} of ${all} failed${broken}.` : "";
  if (reason !== "") return <PlainText text={`${reason} ${failed}`.trimEnd()} />;
  if (unreached.length > 0)
    return `Missed its threshold: ${unreached.map(gateInWords).join(", ")}. ${failed}`.trimEnd();
  if (failed !== "") return failed;
  return "There were more warnings than the run allows.";
}

const gateNames: Readonly<Record<string, string>> = {
  passRate: "pass rate",
  answerRate: "answer rate",
  toolCoverage: "coverage of tools",
  parameterCoverage: "coverage of parameters",
  resourceCoverage: "coverage of resources",
  promptCoverage: "coverage of prompts",
  score: "mean score",
};

/** What a threshold is of: a measure of the run, or a grader. */
export function gateName(name: string): string {
  return gateNames[name] ?? name;
}

type Gate = NonNullable<RunDocument["gates"]>[number];

/** What was measured, as a share where it is one. */
export function gateValue({ name, value, threshold, atMost }: Gate): string {
  return value === null ? "unknown" : formatMeasured(roundMeasured({ value, threshold, atMost }), name);
}

/** What a value has to be. */
export function gateWanted({ name, threshold, atMost }: Pick<Gate, "name" | "threshold" | "atMost">): string {
  return `${atMost === true ? "at most" : "at least"} ${formatMeasured(threshold, name)}`;
}

function formatMeasured(value: number, name: string): string {
  const metric = metricOf(name);
  const isShare = metric === undefined ? !runLimits.includes(name) : metric.isShare === true;
  return formatPrecise(value, isShare ? "percent" : "number");
}

/** What lets a run with failed trials pass: in words, and short beside its verdict. */
export function toleranceInWords({ name, threshold }: NonNullable<RunDocument["passesBy"]>): {
  readonly sentence: string;
  readonly short: string;
} {
  if (threshold === undefined)
    return { sentence: "passes because it is no worse than its baseline", short: "by baseline" };
  const wanted = gateWanted({ name, threshold });
  const least = formatMeasured(threshold, name);
  return {
    sentence: `passes because its ${visibleOnPage(gateName(name))} is ${wanted}`,
    short: `needs ${least}`,
  };
}

function gateInWords(gate: Gate): string {
  return `${visibleOnPage(gateName(gate.name))} is ${gateValue(gate)}, not ${gateWanted(gate)}`;
}

function Views({ run }: { readonly run: RunDocument }): ReactElement {
  const params = { run: run.id };
  const failed = useMemo(() => alikeFindings(run.findings).length, [run.findings]);
  return (
    <nav aria-label="Views of the run" className="border-line mb-4 flex flex-wrap border-b">
      <Link to="/runs/$run" params={params} activeOptions={withAnySearch} className={tabStyle}>
        Overview
      </Link>
      <Link to="/runs/$run/trials" params={params} activeOptions={withAnySearch} className={tabStyle}>
        Trials <Small count={run.trials.length} />
      </Link>
      {(failed > 0 || run.kind === "check") && (
        <Link to="/runs/$run/findings" params={params} activeOptions={withAnySearch} className={tabStyle}>
          Findings <Small count={failed} />
        </Link>
      )}
      {run.graders.length > 0 && (
        <Link to="/runs/$run/graders" params={params} className={tabStyle}>
          Graders
        </Link>
      )}
      {run.coverage !== undefined && (
        <Link to="/runs/$run/coverage" params={params} className={tabStyle}>
          Coverage
        </Link>
      )}
      {run.servers.length > 0 && (
        <Link to="/runs/$run/servers" params={params} activeOptions={withAnySearch} className={tabStyle}>
          Servers
        </Link>
      )}
      <Link to="/runs/$run/usage" params={params} className={tabStyle}>
        Usage
      </Link>
      <Link to="/runs/$run/environment" params={params} className={tabStyle}>
        Environment
      </Link>
    </nav>
  );
}

const withAnySearch = { exact: true, includeSearch: false } as const;

function Small({ count }: { readonly count: number }): ReactElement {
  return <span className="text-muted text-xs tabular-nums">{formatNumber(count)}</span>;
}
