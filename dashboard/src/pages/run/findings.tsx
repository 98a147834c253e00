import { type ClientRow, clientTable } from "../../../../src/check/client-table.ts";
import { alikeFindings } from "../../../../src/model/alike-findings.ts";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";
import type { RunFinding, Severity } from "../../../../src/model/finding.ts";
import { type Column, DataTable } from "../../components/data-table.tsx";
import { ChoiceFilter, FilterBar, NoMatch, TextFilter } from "../../components/filters.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { EmptyState } from "../../components/states.tsx";
import { tones } from "../../components/verdict-badge.tsx";
import { counted } from "../../format.ts";
import { oneOf, type RawSearch, textOf } from "../../search.ts";
import { useShownRun } from "./layout.tsx";

const route = getRouteApi("/runs/$run/findings");

interface FindingsSearch {
  readonly text?: string | undefined;
  readonly severity?: Severity | undefined;
  readonly server?: string | undefined;
}

const severities: readonly Severity[] = ["error", "warning", "info"];
const headings: Readonly<Record<Severity, string>> = { error: "Errors", warning: "Warnings", info: "Info" };
const severityTones = { error: "fail", warning: "error", info: "active" } as const;

export function findingsSearch(raw: RawSearch): FindingsSearch {
  return {
    text: textOf(raw["text"]),
    severity: oneOf(raw["severity"], severities),
    server: textOf(raw["server"]),
  };
}

/** What is wrong with servers, errors first. */
export function FindingsView(): ReactElement {
  const { id, findings } = useShownRun();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const set = (change: Partial<FindingsSearch>): void =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const shown = useMemo(() => findings.filter((finding) => isShown(finding, search)), [findings, search]);
  const servers = useMemo(() => [...new Set(findings.map(({ server }) => server))].sort(), [findings]);
  if (findings.length === 0)
    return (
      <EmptyState title="Nothing was found">
        <p>No rule found a defect. What was looked at is in the list of trials.</p>
      </EmptyState>
    );
  return (
    <>
      <FilterBar noun="finding" shown={alikeFindings(shown).length} all={alikeFindings(findings).length}>
        <TextFilter label="Filter by text" value={search.text} onChange={(text) => set({ text })} />
        <ChoiceFilter
          label="Severity"
          all="All severities"
          choices={severities.map((value) => ({ value, title: headings[value] }))}
          value={search.severity}
          onChange={(severity) => set({ severity: oneOf(severity, severities) })}
        />
        {servers.length > 1 && (
          <ChoiceFilter
            label="Server"
            all="All servers"
            choices={servers.map((value) => ({ value }))}
            value={search.server}
            onChange={(server) => set({ server })}
          />
        )}
      </FilterBar>
      {shown.length === 0 && <NoMatch noun="finding" onReset={() => void navigate({ search: {} })} />}
      {severities.map((severity) => (
        <FindingList
          key={severity}
          run={id}
          title={headings[severity]}
          findings={shown.filter((finding) => finding.severity === severity)}
        />
      ))}
      <ClientTable findings={shown} />
    </>
  );
}

function isShown(finding: RunFinding, { text, severity, server }: FindingsSearch): boolean {
  if (severity !== undefined && finding.severity !== severity) return false;
  if (server !== undefined && finding.server !== server) return false;
  if (text === undefined) return true;
  const { code, title, message, place } = finding;
  const wanted = text.toLowerCase();
  return [code, title, message, ...Object.values(place)].some((each) => each.toLowerCase().includes(wanted));
}

/** Findings, those that say the same of several places once. */
export function FindingList({
  run,
  title,
  findings,
}: {
  readonly run: string;
  readonly title: string;
  readonly findings: readonly RunFinding[];
}): ReactElement | null {
  const groups = useMemo(() => alikeFindings(findings), [findings]);
  if (groups.length === 0) return null;
  return (
    <Section title={title} aside={<span className="text-muted">{groups.length}</span>}>
      <ul className="flex flex-col gap-2">
        {groups.map((group, index) => (
          // oxlint-disable-next-line react/no-array-index-key
          <li
            key={index}
            className="panel px-3 py-2 [contain-intrinsic-size:auto_5.5rem] [content-visibility:auto]"
          >
            <FindingText run={run} findings={group} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** Places that are shown at once. */
const maxShownPlaces = 10;

/** What findings that are alike say, and where. */
export function FindingText({
  run,
  findings,
}: {
  readonly run: string;
  readonly findings: readonly [RunFinding, ...(readonly RunFinding[])];
}): ReactElement {
  const [{ code, severity, title, message, fix, clients = {} }] = findings;
  const rest = findings.slice(maxShownPlaces);
  return (
    <article className="min-w-0 break-words">
      <h3 className="flex flex-wrap items-baseline gap-x-3">
        <span className={`rounded px-1.5 py-0.5 text-xs font-medium ${tones[severityTones[severity]].soft}`}>
          {severity}
        </span>
        <span className="font-medium">{title}</span>
        <Link to="/runs/$run/rule" params={{ run }} search={{ code }} className="font-normal sm:ml-auto">
          <code>{code}</code>
        </Link>
      </h3>
      <p>
        <PlainText text={message} />
      </p>
      <p>
        <span className="text-muted">Fix: </span>
        <PlainText text={fix} />
      </p>
      {Object.keys(clients).length > 0 && (
        <p>
          <span className="text-muted">Clients: </span>
          {Object.entries(clients)
            .map(([client, effect]) => `${client} (${effect === "refused" ? "refuses it" : "changes it"})`)
            .join(", ")}
        </p>
      )}
      <Places run={run} findings={findings.slice(0, maxShownPlaces)} />
      {rest.length > 0 && (
        <details>
          <summary className="text-muted">and {counted(rest.length, "more place")}</summary>
          <Places run={run} findings={rest} />
        </details>
      )}
    </article>
  );
}

/** Where something was found, with links to what shows it. */
function Places({
  run,
  findings,
}: {
  readonly run: string;
  readonly findings: readonly RunFinding[];
}): ReactElement {
  return (
    <ul className="flex flex-wrap gap-x-4">
      {findings.map(({ server, place, trial, evidence: [event] }, index) => (
        // oxlint-disable-next-line react/no-array-index-key
        <li key={index} className="min-w-0">
          <PlainText text={[server, ...Object.values(place)].join(" › ")} />{" "}
          <Link
            to="/runs/$run/trials/$trial"
            params={{ run, trial }}
            search={event === undefined ? {} : { event }}
            className="text-xs"
          >
            {event === undefined ? "the trial" : `event ${event}`}
          </Link>
        </li>
      ))}
    </ul>
  );
}

function clientColumns(clients: readonly string[]): readonly Column<ClientRow>[] {
  return [
    {
      id: "tool",
      title: "Tool",
      value: ({ tool }) => tool,
      cell: ({ tool }) => <PlainText text={tool} hasTitle className="font-medium" />,
    },
    ...clients.map((client) => ({
      id: client,
      title: client,
      cell: ({ effects }: ClientRow) => {
        const effect = effects[client] ?? "ok";
        return <span className={clientTones[effect]}>{effect}</span>;
      },
      width: 5.5,
    })),
  ];
}

/** What known clients do with tools: those that some client refuses or changes. */
function ClientTable({ findings }: { readonly findings: readonly RunFinding[] }): ReactElement | null {
  const rows = useMemo(
    () => clientTable(findings, new Set(findings.map(({ server }) => server)).size > 1),
    [findings],
  );
  const columns = useMemo(() => clientColumns(Object.keys(rows[0]?.effects ?? {})), [rows]);
  if (rows.length === 0) return null;
  return (
    <Section
      title="Clients"
      aside={
        <span className="text-muted">
          tools that known clients refuse or change; invalid: the tool has an error, and what the client does
          is not known
        </span>
      }
    >
      <DataTable label="Clients" rows={rows} columns={columns} rowKey={({ tool }) => tool} />
    </Section>
  );
}

const clientTones = {
  ok: "text-muted",
  refused: "text-fail",
  changed: "text-error",
  invalid: "text-fail",
} as const;
