import type { ReactElement } from "react";
import type { Proportion } from "../../../src/statistics/rates.ts";

/** A share on a line from 0 to 100 %, with its interval. It is drawn only: what it shows must also be there as text. */
export function IntervalBar({ rate: { value, low, high } }: { readonly rate: Proportion }): ReactElement {
  return (
    <svg aria-hidden="true" className="block h-1 w-full overflow-visible">
      <rect width="100%" height="100%" rx="2" className="fill-line/70" />
      <rect x={at(low)} width={at(high - low)} height="100%" rx="2" className="fill-accent/45" />
      <circle cx={at(value)} cy="50%" r="3" className="fill-accent" />
    </svg>
  );
}

/**
 * A row of a chart of shares: the interval for these tasks as a bar, the one for tasks like these as a line, and where `reference` is, a mark for
 * looking from row to row.
 */
export function IntervalRow({
  rate,
  wider,
  reference,
}: {
  readonly rate: Proportion;
  readonly wider?: Proportion | undefined;
  readonly reference: number;
}): ReactElement {
  return (
    <svg aria-hidden="true" className="block h-10 w-full overflow-visible">
      {gridLines.map((share) => (
        <line key={share} x1={at(share)} x2={at(share)} y2="100%" className="stroke-line" />
      ))}
      <line x1={at(reference)} x2={at(reference)} y2="100%" strokeDasharray="3 3" className="stroke-muted" />
      {wider !== undefined && (
        <line x1={at(wider.low)} x2={at(wider.high)} y1="50%" y2="50%" className="stroke-accent" />
      )}
      <rect
        x={at(rate.low)}
        width={at(rate.high - rate.low)}
        y="50%"
        height="10"
        transform="translate(0 -5)"
        rx="2"
        className="fill-accent/45"
      />
      <circle cx={at(rate.value)} cy="50%" r="4.5" className="fill-accent" />
    </svg>
  );
}

const gridLines = [0, 0.25, 0.5, 0.75, 1] as const;

/** What the grid lines of {@link IntervalRow} stand for. */
export function IntervalAxis(): ReactElement {
  return (
    <div aria-hidden="true" className="text-muted relative h-4 text-xs tabular-nums">
      {gridLines.map((share) => (
        <span
          key={share}
          style={{ left: at(share) }}
          className={`absolute ${share === 0 ? "" : share === 1 ? "-translate-x-full" : "-translate-x-1/2"}`}
        >
          {at(share)}
        </span>
      ))}
    </div>
  );
}

function at(share: number): string {
  return `${share * 100}%`;
}
