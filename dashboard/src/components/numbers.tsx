import type { ReactElement } from "react";
import { formatCompact, formatDate, formatDuration, formatNumber } from "../format.ts";

/** A dash where there is nothing to say, which a screen reader says in words. */
export function Nothing(): ReactElement {
  return (
    <span className="text-muted">
      <span aria-hidden="true">–</span>
      <span className="sr-only">none</span>
    </span>
  );
}

export function Duration({ ms }: { readonly ms: number | undefined }): ReactElement {
  if (ms === undefined) return <Nothing />;
  return <span className="whitespace-nowrap tabular-nums">{formatDuration(ms)}</span>;
}

/** Rounded, with the exact number as its title. */
export function Tokens({ count }: { readonly count: number | undefined }): ReactElement {
  if (count === undefined) return <Nothing />;
  return (
    <span className="whitespace-nowrap tabular-nums" title={`${formatNumber(count)} tokens`}>
      {formatCompact(count)}
    </span>
  );
}

export function Count({ value }: { readonly value: number | undefined }): ReactElement {
  if (value === undefined) return <Nothing />;
  return <span className="whitespace-nowrap tabular-nums">{formatNumber(value)}</span>;
}

/** In local time; the title has it in UTC. */
export function DateTime({ iso }: { readonly iso: string }): ReactElement {
  return (
    <time dateTime={iso} title={iso} className="whitespace-nowrap tabular-nums">
      {formatDate(iso)}
    </time>
  );
}
