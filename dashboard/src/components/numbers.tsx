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

/** The time since a moment, which goes on as long as the dashboard answers. */
export function Elapsed({ since }: { readonly since: string }): ReactElement {
  const [now, setNow] = useState(() => Date.now());
  const isOffline = useIsOffline();
  useEffect(() => {
    if (isOffline) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isOffline]);
  // In whole seconds, and not negative where the clocks of two machines differ.
  const seconds = Math.max(0, Math.round((now - Date.parse(since)) / 1000));
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
