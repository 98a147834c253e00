import { type ReactElement, useEffect, useState } from "react";
import { useIsOffline } from "../connection.ts";
import { formatCompact, formatDate, formatDuration, formatNumber, formatPercent } from "../format.ts";

/** A dash where there is nothing to say, which a screen reader says in words. */
export function Nothing(): ReactElement {
  return (
    <span className="text-muted">
      <span aria-hidden="true">–</span>
      <span className="sr-only">none</span>
    </span>
  );
}

interface NumberProps {
  readonly value: number | undefined;
}

export function Count({ value }: NumberProps): ReactElement {
  if (value === undefined) return <Nothing />;
  return <span className="whitespace-nowrap tabular-nums">{formatNumber(value)}</span>;
}

/** A share, 0 to 1. */
export function Percent({ value }: NumberProps): ReactElement {
  if (value === undefined) return <Nothing />;
  return <span className="whitespace-nowrap tabular-nums">{formatPercent(value)}</span>;
}

/** In milliseconds. */
export function Duration({ value }: NumberProps): ReactElement {
  if (value === undefined) return <Nothing />;
  return <span className="whitespace-nowrap tabular-nums">{formatDuration(value)}</span>;
}

/** Milliseconds since a time, updated each second while the dashboard answers; undefined without a time. */
export function useElapsed(since: string | undefined): number | undefined {
  const [now, setNow] = useState(() => Date.now());
  const isOffline = useIsOffline();
  const isStopped = isOffline || since === undefined;
  useEffect(() => {
    if (isStopped) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isStopped]);
  // Not negative where the clocks of two machines differ.
  return since === undefined ? undefined : Math.max(0, now - Date.parse(since));
}

/** The time since a given time, in whole seconds. */
export function Elapsed({ since }: { readonly since: string }): ReactElement {
  const seconds = Math.round((useElapsed(since) ?? 0) / 1000);
  return <span className="whitespace-nowrap tabular-nums">{formatDuration(seconds * 1000)}</span>;
}

/** Rounded, with the exact number as its title. */
export function Tokens({ value }: NumberProps): ReactElement {
  if (value === undefined) return <Nothing />;
  return (
    <span className="whitespace-nowrap tabular-nums" title={`${formatNumber(value)} tokens`}>
      {formatCompact(value)}
    </span>
  );
}

/** In local time; the title has it in UTC. */
export function DateTime({ iso }: { readonly iso: string }): ReactElement {
  return (
    <time dateTime={iso} title={iso} className="whitespace-nowrap tabular-nums">
      {formatDate(iso)}
    </time>
  );
}
