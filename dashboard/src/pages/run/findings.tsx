import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";
import type { RunFinding, Severity } from "../../../../src/model/finding.ts";
import { ChoiceFilter, FilterBar, NoMatch, TextFilter } from "../../components/filters.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { EmptyState } from "../../components/states.tsx";
import { tones } from "../../components/verdict-badge.tsx";
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
      <FilterBar noun="finding" shown={shown.length} all={findings.length}>
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
          severity={severity}
          findings={shown.filter((finding) => finding.severity === severity)}
        />
      ))}
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

function FindingList({
  run,
  severity,
  findings,
}: {
  readonly run: string;
  readonly severity: Severity;
  readonly findings: readonly RunFinding[];
}): ReactElement | null {
  if (findings.length === 0) return null;
  return (
    <Section title={headings[severity]} aside={<span className="text-muted">{findings.length}</span>}>
      <ul className="flex flex-col gap-2">
        {findings.map((finding, index) => (
          // oxlint-disable-next-line react/no-array-index-key
          <li
            key={index}
            className="panel px-3 py-2 [contain-intrinsic-size:auto_5.5rem] [content-visibility:auto]"
          >
            <FindingText run={run} finding={finding} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

export function FindingText({
  run,
  finding,
}: {
  readonly run: string;
  readonly finding: RunFinding;
}): ReactElement {
  const { code, severity, title, server, place, message, fix, trial, evidence, clients = {} } = finding;
  return (
    <article className="min-w-0 break-words">
      <h3 className="flex flex-wrap items-baseline gap-x-3">
        <span className={`rounded px-1.5 py-0.5 text-xs font-medium ${tones[severityTones[severity]].soft}`}>
          {severity}
        </span>
        <span className="font-medium">{title}</span>
        <PlainText text={[server, ...Object.values(place)].join(" › ")} className="min-w-0" />
        <code className="text-muted sm:ml-auto">{code}</code>
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
      <p className="flex flex-wrap gap-x-3">
        <span className="text-muted">Evidence:</span>
        {evidence.slice(0, 5).map((event) => (
          <Link key={event} to="/runs/$run/trials/$trial" params={{ run, trial }} search={{ event }}>
            event {event}
          </Link>
        ))}
        {evidence.length === 0 && (
          <Link to="/runs/$run/trials/$trial" params={{ run, trial }}>
            the trial
          </Link>
        )}
      </p>
    </article>
  );
}
