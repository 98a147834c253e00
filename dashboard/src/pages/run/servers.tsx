import { alikeFindings } from "../../../../src/model/alike-findings.ts";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactElement, type ReactNode, useMemo } from "react";
import { visibleOnPage } from "../../../../src/base/visible-text.ts";
import type { Definition, RunRow, ServerRow, ToolRow } from "../../../../src/report/documents/documents.ts";
import { type Column, DataTable, numberColumn } from "../../components/data-table.tsx";
import { JsonText } from "../../components/json-text.tsx";
import { ExcerptView } from "../../components/excerpt-view.tsx";
import { LineDiff } from "../../components/line-diff.tsx";
import { Count, Duration, Nothing, Percent, Tokens } from "../../components/numbers.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { EmptyState, Loaded } from "../../components/states.tsx";
import { counted, formatCompact, formatDuration, formatNumber, formatPercent } from "../../format.ts";
import { useDataSource, useServers } from "../../queries.ts";
import { type RawSearch, textOf } from "../../search.ts";
import { FindingText } from "./findings.tsx";
import { useShownRun } from "./layout.tsx";

const route = getRouteApi("/runs/$run/servers");

interface ServersSearch {
  readonly sort?: string | undefined;
  /** The tool that is shown. */
  readonly server?: string | undefined;
  readonly tool?: string | undefined;
}

export function serversSearch(raw: RawSearch): ServersSearch {
  return { sort: textOf(raw["sort"]), server: textOf(raw["server"]), tool: textOf(raw["tool"]) };
}

/** What servers offer, what that costs, how it was used. */
export function ServersView(): ReactElement {
  const { id } = useShownRun();
  return (
    <Loaded query={useServers(id)} what="the servers">
      {({ servers, reading }) => (
        <>
          {reading !== undefined && (
            <p className="text-muted mb-2">
              Read so far: {formatNumber(reading.trials)} of {counted(reading.of, "trial")}
            </p>
          )}
          {servers.length === 0 ? (
            <EmptyState title="The run has no servers" />
          ) : (
            servers.map((server) => <ServerSection key={server.name} run={id} server={server} />)
          )}
        </>
      )}
    </Loaded>
  );
}

function ServerSection({ run, server }: { readonly run: string; readonly server: ServerRow }): ReactElement {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { name, reported, tools, target, findings, comparedWith } = server;
  const { runs } = useDataSource();
  const { kind } = useShownRun();
  const columns = useMemo(() => columnsFor(run, server, kind), [run, server, kind]);
  const shown = search.server === name ? tools.find((tool) => tool.name === search.tool) : undefined;
  return (
    <Section
      title={<PlainText text={name} />}
      aside={
        reported !== undefined && (
          <PlainText
            text={`${reported.name} ${reported.version}, MCP ${reported.protocolVersion}`}
            className="text-muted"
          />
        )
      }
    >
      <p className="mb-2 flex flex-wrap gap-x-5 gap-y-1">{factsOf(server, kind)}</p>
      {comparedWith !== undefined && (
        <p className="text-muted mb-2">
          Definitions are compared with{" "}
          {runs === undefined ? (
            `run ${comparedWith}`
          ) : (
            <Link to="/runs/$run/servers" params={{ run: comparedWith }}>
              run {comparedWith}
            </Link>
          )}
        </p>
      )}
      {tools.length === 0 ? (
        <EmptyState title="The server listed no tools" />
      ) : (
        <DataTable
          label={`Tools of ${visibleOnPage(name)}`}
          rows={tools}
          columns={columns}
          rowKey={(tool) => tool.name}
          sort={search.sort}
          onSort={(sort) => void navigate({ search: (before) => ({ ...before, sort }), replace: true })}
        />
      )}
      {shown !== undefined && <ToolDetails run={run} server={server} tool={shown} />}
      {findings.length > 0 && (
        <details className="panel mt-2 px-3 py-2">
          <summary>{counted(alikeFindings(findings).length, "finding")}</summary>
          <ul className="divide-line divide-y">
            {alikeFindings(findings).map((group, index) => (
              // oxlint-disable-next-line react/no-array-index-key
              <li key={index} className="py-2">
                <FindingText run={run} findings={group} />
              </li>
            ))}
          </ul>
        </details>
      )}
      {target !== undefined && (
        <details className="panel mt-2 px-3 py-2">
          <summary>Connection</summary>
          <pre className="mt-2 overflow-x-auto">
            <JsonText text={JSON.stringify(target, undefined, 2)} />
          </pre>
        </details>
      )}
    </Section>
  );
}

function factsOf(
  { starts, losses, calls, errors, checked, p50Ms, p95Ms, tokens, unusedTokens, tools }: ServerRow,
  kind: RunRow["kind"],
): readonly ReactNode[] {
  const used = tools.filter((tool) => tool.calls > 0).length;
  const called = tools.filter((tool) => tool.checked !== undefined).length;
  const facts: readonly (readonly [text: string, problem?: boolean])[] = [
    [counted(starts, "start")],
    ...(losses === 0 ? [] : [[`connection lost ${counted(losses, "time")}`, true] as const]),
    ...(kind === "run"
      ? [
          [`${used} of ${counted(tools.length, "tool")} used`] as const,
          [counted(calls, "call")] as const,
          ...(calls === 0 ? [] : [[`${formatPercent(errors / calls)} errors`, errors > 0] as const]),
        ]
      : [
          [`the check called ${called} of ${counted(tools.length, "tool")}`] as const,
          ...(checked === undefined
            ? []
            : [
                [`${counted(checked.valid, "valid call")}, ${checked.failed} failed`] as const,
                [`${counted(checked.invalid, "invalid call")}, ${checked.refused} refused`] as const,
              ]),
        ]),
    ...(p50Ms === undefined ? [] : [[`p50 ${formatDuration(p50Ms)}`] as const]),
    ...(p95Ms === undefined ? [] : [[`p95 ${formatDuration(p95Ms)}`] as const]),
    ...(tools.length === 0
      ? []
      : [
          [
            `about ${formatCompact(tokens)} tokens of definitions, ${formatCompact(unusedTokens)} of tools without a call`,
          ] as const,
        ]),
  ];
  return facts.map(([text, problem = false]) => (
    <span key={text} className={problem ? "text-fail" : "text-muted"}>
      {text}
    </span>
  ));
}

function shownName(tool: string): string {
  return tool === "" ? "(no name)" : tool;
}

const changes = {
  added: { text: "added", tone: "text-pass" },
  removed: { text: "removed", tone: "text-fail" },
  changed: { text: "changed", tone: "text-error" },
} as const;

function columnsFor(
  run: string,
  { name: server, comparedWith, findings }: ServerRow,
  kind: RunRow["kind"],
): readonly Column<ToolRow>[] {
  return [
    {
      id: "tool",
      title: "Tool",
      value: ({ name }) => name,
      cell: ({ name }) => (
        <Link
          to="/runs/$run/servers"
          params={{ run }}
          search={(before) => ({ ...before, server, tool: name })}
          resetScroll={false}
          className="font-medium"
        >
          <PlainText text={shownName(name)} hasTitle />
        </Link>
      ),
      width: 12,
    },
    numberColumn({ id: "tokens", title: "Tokens", value: ({ tokens }) => tokens, as: Tokens, width: 4.5 }),
    ...(kind === "run" ? useColumns : checkColumns),
    numberColumn({ id: "p50", title: "p50", value: ({ p50Ms }) => p50Ms, as: Duration }),
    numberColumn({ id: "p95", title: "p95", value: ({ p95Ms }) => p95Ms, as: Duration }),
    // Only a check looks for findings of every tool.
    ...(kind === "check" || findings.length > 0
      ? [
          numberColumn<ToolRow>({
            id: "findings",
            title: "Findings",
            value: (tool) => tool.findings,
            as: Count,
          }),
        ]
      : []),
    ...(comparedWith === undefined
      ? []
      : [
          {
            id: "change",
            title: "Definition",
            value: ({ change }: ToolRow) => change,
            cell: ({ change }: ToolRow) =>
              change === undefined ? (
                <span className="text-muted">same</span>
              ) : (
                <span className={changes[change].tone}>{changes[change].text}</span>
              ),
            width: 6,
          },
        ]),
    {
      id: "description",
      title: "Description",
      cell: ({ description = "" }) =>
        description.trim() === "" ? (
          <Nothing />
        ) : (
          <PlainText text={description} hasTitle className="text-muted" />
        ),
    },
  ];
}

/** How agents and steps used a tool. */
const useColumns: readonly Column<ToolRow>[] = [
  numberColumn({ id: "calls", title: "Calls", value: ({ calls }) => calls, as: Count, width: 4 }),
  {
    ...numberColumn({ id: "errors", title: "Errors", value: errorRate, as: Percent }),
    cell: (tool) => (
      <span className={tool.errors > 0 ? "text-fail" : ""}>
        <Percent value={errorRate(tool)} />
      </span>
    ),
  },
];

/** What became of a check's calls of a tool, valid ones and invalid ones apart. */
const checkColumns: readonly Column<ToolRow>[] = [
  numberColumn({ id: "calls", title: "Valid calls", value: ({ checked }) => checked?.valid, as: Count }),
  numberColumn({ id: "errors", title: "Failed", value: ({ checked }) => checked?.failed, as: Count }),
  numberColumn({
    id: "invalid",
    title: "Invalid calls",
    value: ({ checked }) => checked?.invalid,
    as: Count,
    width: 6,
  }),
  numberColumn({ id: "refused", title: "Refused", value: ({ checked }) => checked?.refused, as: Count }),
];

function errorRate({ calls, errors }: ToolRow): number | undefined {
  return calls === 0 ? undefined : errors / calls;
}

function ToolDetails({
  run,
  server,
  tool: { name, description, definition, notCalled, change, before },
}: {
  readonly run: string;
  readonly server: ServerRow;
  readonly tool: ToolRow;
}): ReactElement {
  const findings = server.findings.filter(({ place }) => place.tool === name);
  return (
    <section aria-label={`Tool ${visibleOnPage(name)}`} className="panel mt-2 p-3">
      <div className="flex items-baseline gap-3">
        <h3 className="min-w-0 font-medium break-words">
          <PlainText text={shownName(name)} />
        </h3>
        {change !== undefined && <span className={changes[change].tone}>{changes[change].text}</span>}
        <Link
          to="/runs/$run/servers"
          params={{ run }}
          search={({ sort }) => ({ sort })}
          resetScroll={false}
          className="ml-auto"
        >
          Close
        </Link>
      </div>
      {description !== undefined && (
        <p className="text-muted mt-1 max-w-prose break-words whitespace-pre-wrap">
          <PlainText text={description} />
        </p>
      )}
      {notCalled !== undefined && <p className="text-muted mt-1">The check did not call it: {notCalled}.</p>}
      {findings.map((finding, index) => (
        // oxlint-disable-next-line react/no-array-index-key
        <div key={index} className="border-line mt-2 border-t pt-2">
          <FindingText run={run} findings={[finding]} />
        </div>
      ))}
      <div className="border-line mt-2 overflow-x-auto border-t pt-2">
        {before !== undefined ? (
          <DefinitionDiff before={before} after={definition} />
        ) : definition === undefined ? (
          <p className="text-muted">It was called, but the server did not list it.</p>
        ) : (
          <ExcerptView key={definition.pointer} {...definition} excerpt={definition} />
        )}
      </div>
    </section>
  );
}

/** In characters: of longer definitions the rest is left out. */
const maxCompared = 200_000;

function DefinitionDiff({
  before,
  after,
}: {
  readonly before: Definition;
  readonly after: Definition | undefined;
}): ReactElement {
  const { content } = useDataSource();
  const query = useQuery({
    queryKey: ["definitions", before, after],
    queryFn: () =>
      Promise.all(
        [before, after].map(async (definition) => {
          if (definition === undefined) return "";
          if (definition.text.length === definition.length) return definition.text;
          return (await content({ ...definition, from: 0, length: maxCompared })).text;
        }),
      ),
    staleTime: Infinity,
  });
  return (
    <Loaded query={query} what="the definitions">
      {([old = "", young = ""]) => <LineDiff before={old} after={young} />}
    </Loaded>
  );
}
