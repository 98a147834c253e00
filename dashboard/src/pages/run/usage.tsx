import { type ReactElement, useMemo } from "react";
import { withoutModel } from "../../../../src/core/plan/plan.ts";
import type { RunMeasurements } from "../../../../src/core/report/result.ts";
import type { Usage } from "../../../../src/core/trace/events.ts";
import type { RunDocument, TrialRow } from "../../../../src/core/view/documents.ts";
import { type Column, DataTable } from "../../components/data-table.tsx";
import { Count, Duration, Nothing, Tokens } from "../../components/numbers.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { EmptyState } from "../../components/states.tsx";
import { counted, formatNumber } from "../../format.ts";
import { useShownRun } from "./layout.tsx";

/** What models used, how agents used tools, and where prompts led. */
export function UsageView(): ReactElement {
  const { usage, judgeUsage, measurements, routing, trials, agents: configured } = useShownRun();
  const hasModel = configured.some(({ type }) => !(type in withoutModel));
  const agents = useMemo(() => agentRows(trials), [trials]);
  const models = [
    { who: "Agents", usage },
    { who: "Judges", usage: judgeUsage },
  ].flatMap((row) => (row.usage === undefined ? [] : [{ who: row.who, usage: row.usage }]));
  if (models.length === 0 && agents.length === 0 && measurements === undefined)
    return (
      <EmptyState title="No model was used">
        <p>Tokens and measurements appear for runs with agents.</p>
      </EmptyState>
    );
  return (
    <>
      {models.length > 0 && (
        <Section title="Tokens">
          <DataTable label="Tokens" rows={models} columns={modelColumns} rowKey={({ who }) => who} />
        </Section>
      )}
      {agents.length > 0 && (
        <Section title="By agent" aside={<span className="text-muted">means of the trials that ended</span>}>
          <DataTable label="By agent" rows={agents} columns={agentColumns} rowKey={({ agent }) => agent} />
        </Section>
      )}
      {measurements !== undefined && <Measurements measurements={measurements} hasModel={hasModel} />}
      {routing !== undefined && <RoutingTable routing={routing} />}
    </>
  );
}

const modelColumns: readonly Column<{ readonly who: string; readonly usage: Usage }>[] = [
  { id: "who", title: "Used by", cell: ({ who }) => who },
  ...(
    [
      ["requests", "Requests"],
      ["inputTokens", "Input"],
      ["outputTokens", "Output"],
      ["cacheReadTokens", "Read from cache"],
      ["cacheWriteTokens", "Written to cache"],
    ] as const
  ).map(([name, title]) => ({
    id: name,
    title,
    cell: ({ usage }: { readonly usage: Usage }) => <Count value={usage[name]} />,
    align: "right" as const,
    className: name.startsWith("cache") ? "w-32 max-md:hidden" : "w-28 max-sm:w-20",
  })),
];

interface AgentRow {
  readonly agent: string;
  readonly trials: number;
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly toolCalls: number | undefined;
  readonly durationMs: number | undefined;
}

function agentRows(trials: readonly TrialRow[]): readonly AgentRow[] {
  const groups = new Map<string, TrialRow[]>();
  for (const trial of trials) {
    if (trial.agent === undefined || trial.state !== "ended") continue;
    const group = groups.get(trial.agent);
    if (group === undefined) groups.set(trial.agent, [trial]);
    else group.push(trial);
  }
  return [...groups].map(([agent, group]) => {
    const mean = (name: "inputTokens" | "outputTokens" | "toolCalls" | "durationMs"): number | undefined => {
      const values = group.flatMap((trial) => trial[name] ?? []);
      return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
    };
    return {
      agent,
      trials: group.length,
      inputTokens: mean("inputTokens"),
      outputTokens: mean("outputTokens"),
      toolCalls: mean("toolCalls"),
      durationMs: mean("durationMs"),
    };
  });
}

const agentColumns: readonly Column<AgentRow>[] = [
  {
    id: "agent",
    title: "Agent",
    cell: ({ agent }) => <PlainText text={agent} hasTitle className="font-medium" />,
  },
  {
    id: "trials",
    title: "Trials",
    cell: ({ trials }) => <Count value={trials} />,
    align: "right",
    className: "w-20",
  },
  {
    id: "input",
    title: "Input",
    cell: ({ inputTokens }) => <Tokens count={inputTokens} />,
    align: "right",
    className: "w-20",
  },
  {
    id: "output",
    title: "Output",
    cell: ({ outputTokens }) => <Tokens count={outputTokens} />,
    align: "right",
    className: "w-20",
  },
  {
    id: "calls",
    title: "Tool calls",
    cell: ({ toolCalls }) => <Count value={toolCalls} />,
    align: "right",
    className: "w-24 max-sm:hidden",
  },
  {
    id: "duration",
    title: "Duration",
    cell: ({ durationMs }) => <Duration ms={durationMs} />,
    align: "right",
    className: "w-24",
  },
];

function Measurements({
  measurements: m,
  hasModel,
}: {
  readonly measurements: RunMeasurements;
  readonly hasModel: boolean;
}): ReactElement {
  const causes = Object.entries(m.invalidCauses).map(([cause, count]) => `${cause} ${formatNumber(count)}`);
  const { tokens, unused, perPassedTrial } = m.definitions;
  const facts: readonly (readonly [name: string, value: number | null, note?: string])[] = [
    ["Calls of tools", m.calls],
    ["of tools that do not exist", m.unknownTools],
    ["with arguments that do not fit", m.invalidCalls, causes.join(", ")],
    ["that repeated an earlier one with its result", m.redundantCalls],
    ["that failed", m.errors, `${formatNumber(m.recoveredErrors)} recovered from`],
    ["that repeated a failed call", m.identicalRetries],
    ["Trials with claims without a call", m.unsupportedClaims],
    ["Trials that ignore an error", m.ignoredErrors],
    ["Tokens of definitions (estimate)", tokens, `${formatNumber(unused)} of tools without a call`],
    // Without a model, nobody read them.
    ...(hasModel ? [["Tokens of definitions for each passed trial", perPassedTrial] as const] : []),
  ];
  return (
    <Section
      title="How agents used tools"
      aside={<span className="text-muted">{counted(m.trials, "trial")} measured</span>}
    >
      <dl className="panel divide-line divide-y">
        {facts.map(([name, value, note]) => (
          <div key={name} className="flex flex-wrap gap-x-3 px-3 py-1.5">
            <dt className={/^[a-z]/.test(name) ? "w-80 pl-4" : "w-80"}>{name}</dt>
            <dd className="w-20 text-right">{value === null ? <Nothing /> : <Count value={value} />}</dd>
            {note !== undefined && note !== "" && <dd className="text-muted">{note}</dd>}
          </div>
        ))}
      </dl>
    </Section>
  );
}

type Routing = NonNullable<RunDocument["routing"]>;
type RoutingCell = NonNullable<Routing["tools"]>["matrix"][number];

const routingColumns: readonly Column<RoutingCell>[] = [
  { id: "expected", title: "Expected", cell: ({ expected }) => <PlainText text={expected} hasTitle /> },
  { id: "called", title: "Called first", cell: ({ called }) => <PlainText text={called} hasTitle /> },
  {
    id: "correct",
    title: "",
    cell: ({ expected, called }) => (expected === called ? "as expected" : "wrong"),
    className: "w-28",
  },
  {
    id: "trials",
    title: "Trials",
    cell: ({ trials }) => <Count value={trials} />,
    align: "right",
    className: "w-20",
  },
];

function RoutingTable({ routing }: { readonly routing: Routing }): ReactElement {
  return (
    <>
      {(["tools", "servers", "skills"] as const).map((kind) => {
        const routed = routing[kind];
        return (
          routed !== undefined && (
            <Section
              key={kind}
              title={`Where prompts led: ${kind}`}
              aside={
                <span className="text-muted">
                  {Math.round(routed.correct.value * 100)} % of {counted(routed.correct.trials, "trial")} as
                  expected, {counted(routing.nearMisses, "near miss", "near misses")}
                </span>
              }
            >
              <DataTable
                label={`Where prompts led: ${kind}`}
                rows={routed.matrix}
                columns={routingColumns}
                rowKey={({ expected, called }) => JSON.stringify([expected, called])}
              />
            </Section>
          )
        );
      })}
    </>
  );
}
