import { type ReactElement, useMemo } from "react";
import { withoutModel } from "../../../../src/model/without-model.ts";
import type { RunMeasurements } from "../../../../src/model/result.ts";
import type { RunDocument, TrialRow } from "../../../../src/report/documents/documents.ts";
import { type Column, DataTable, numberColumn } from "../../components/data-table.tsx";
import { Count, Duration, Nothing, Tokens } from "../../components/numbers.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { EmptyState } from "../../components/states.tsx";
import { counted, formatNumber, formatPercent } from "../../format.ts";
import { useShownRun } from "./layout.tsx";
import type { Usage } from "../../../../src/model/grade.ts";

/** What models used, how agents used tools, and where prompts led. */
export function UsageView(): ReactElement {
  const { usage, judgeUsage, userUsage, measurements, routing, trials, agents: configured } = useShownRun();
  const hasModel = configured.some(({ type }) => !(type in withoutModel));
  const agents = useMemo(() => agentRows(trials), [trials]);
  const models = [
    { who: "Agents", usage },
    { who: "Judges", usage: judgeUsage },
    { who: "Simulated users", usage: userUsage },
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
          <DataTable
            label="By agent"
            rows={agents}
            columns={hasModel ? agentColumns : agentColumns.filter(({ id }) => !tokenColumns.has(id))}
            rowKey={({ agent }) => agent}
          />
        </Section>
      )}
      {measurements !== undefined && <Measurements measurements={measurements} />}
      {routing !== undefined && <RoutingTable routing={routing} />}
    </>
  );
}

interface ModelRow {
  readonly who: string;
  readonly usage: Usage;
}

const modelColumns: readonly Column<ModelRow>[] = [
  { id: "who", title: "Used by", cell: ({ who }) => who },
  ...(
    [
      ["requests", "Requests"],
      ["inputTokens", "Input"],
      ["outputTokens", "Output"],
      ["cacheReadTokens", "Read from cache"],
      ["cacheWriteTokens", "Written to cache"],
    ] as const
  ).map(([name, title]) =>
    numberColumn<ModelRow>({ id: name, title, value: ({ usage }) => usage[name], as: Count, width: 8 }),
  ),
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
    if (trial.agent === undefined || trial.verdict === undefined || trial.state === "not-run") continue;
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

/** Of models, which not every agent has. */
const tokenColumns: ReadonlySet<string> = new Set(["input", "output"]);

const agentColumns: readonly Column<AgentRow>[] = [
  {
    id: "agent",
    title: "Agent",
    cell: ({ agent }) => <PlainText text={agent} hasTitle className="font-medium" />,
  },
  numberColumn({ id: "trials", title: "Trials", value: ({ trials }) => trials, as: Count }),
  numberColumn({
    id: "input",
    title: "Input tokens",
    value: ({ inputTokens }) => inputTokens,
    as: Tokens,
    width: 7,
  }),
  numberColumn({
    id: "output",
    title: "Output tokens",
    value: ({ outputTokens }) => outputTokens,
    as: Tokens,
    width: 7,
  }),
  numberColumn({
    id: "calls",
    title: "Tool calls",
    value: ({ toolCalls }) => toolCalls,
    as: Count,
    width: 6,
  }),
  numberColumn({
    id: "duration",
    title: "Duration",
    value: ({ durationMs }) => durationMs,
    as: Duration,
    width: 6,
  }),
];

function Measurements({ measurements: m }: { readonly measurements: RunMeasurements }): ReactElement {
  const causes = Object.entries(m.invalidCauses ?? {}).map(
    ([cause, count]) => `${cause} ${formatNumber(count)}`,
  );
  const { definitions } = m;
  const facts: readonly (readonly [name: string, value: number | null | undefined, note?: string])[] = [
    ["Tool calls", m.calls],
    ["of tools that do not exist", m.unknownTools],
    ["with arguments that do not fit", m.invalidCalls, causes.join(", ")],
    ["that repeated an earlier one with its result", m.redundantCalls],
    ["that failed", m.errors, `${formatNumber(m.recoveredErrors)} recovered from`],
    ["that repeated a failed call", m.identicalRetries],
    ["Trials with claims without a call", m.unsupportedClaims],
    ["Trials that ignore an error", m.ignoredErrors],
    ...(definitions === undefined
      ? []
      : [
          [
            "Tokens of definitions (estimate)",
            definitions.tokens,
            `${formatNumber(definitions.unused)} of tools without a call`,
          ] as const,
          ...(definitions.perPassedTrial === undefined
            ? []
            : [["Tokens of definitions for each passed trial", definitions.perPassedTrial] as const]),
        ]),
  ];
  return (
    <Section
      title="How agents used tools"
      aside={<span className="text-muted">{counted(m.trials, "trial")} measured</span>}
    >
      <dl className="panel divide-line divide-y">
        {facts.map(([name, value, note]) => (
          <div
            key={name}
            className="grid grid-cols-[minmax(0,1fr)_max-content] gap-x-3 px-3 py-1.5 sm:grid-cols-[20rem_5rem_minmax(0,1fr)]"
          >
            <dt className={/^[a-z]/.test(name) ? "pl-4" : ""}>{name}</dt>
            <dd className="text-right">
              {value === undefined ? "unknown" : value === null ? <Nothing /> : <Count value={value} />}
            </dd>
            {note !== undefined && note !== "" && <dd className="text-muted max-sm:pl-4">{note}</dd>}
          </div>
        ))}
      </dl>
    </Section>
  );
}

type Routing = NonNullable<RunDocument["routing"]>;
type RoutingCell = NonNullable<Routing["tools"]>["matrix"][number];

/** What of a server or an agent a prompt should lead to, and how its use is called. */
const routes = { tools: "Called", servers: "Called", skills: "Loaded" } as const;

function routingColumns(used: string): readonly Column<RoutingCell>[] {
  return [
    { id: "expected", title: "Expected", cell: ({ expected }) => <PlainText text={expected} hasTitle /> },
    { id: "called", title: used, cell: ({ called }) => <PlainText text={called} hasTitle /> },
    {
      id: "correct",
      title: "Outcome",
      cell: ({ expected, called }) => (expected === called ? "as expected" : "not as expected"),
      width: 9,
    },
    numberColumn({ id: "trials", title: "Trials", value: ({ trials }) => trials, as: Count }),
  ];
}

function RoutingTable({ routing }: { readonly routing: Routing }): ReactElement {
  return (
    <>
      {Object.entries(routes).map(([kind, used]) => {
        const routed = routing[kind as keyof typeof routes];
        return (
          routed !== undefined && (
            <Section
              key={kind}
              title={`Routing of prompts: ${kind}`}
              aside={
                <span className="text-muted">
                  {formatPercent(routed.correct.value)} of {counted(routed.correct.trials, "trial")} as
                  expected, {counted(routing.nearMisses, "near miss", "near misses")}
                </span>
              }
            >
              <DataTable
                label={`Routing of prompts: ${kind}`}
                rows={routed.matrix}
                columns={routingColumns(used)}
                rowKey={({ expected, called }) => JSON.stringify([expected, called])}
              />
            </Section>
          )
        );
      })}
    </>
  );
}
