import type { ReactElement } from "react";
import type { Proportion } from "../../../src/statistics/rates.ts";

/** A share on a line from 0 to 100 %, with its interval. It is drawn only: what it shows must also be there as text. */
export function IntervalBar({ rate: { value, low, high } }: { readonly rate: Proportion }): ReactElement {
  return (
    <svg aria-hidden="true" className="block h-1 w-full overflow-visible">
      <rect width="100%" height="100%" rx="2" className="fill-raised" />
      <rect x={at(low)} width={at(high - low)} height="100%" rx="2" className="fill-accent/45" />
      <circle cx={at(value)} cy="50%" r="3" className="fill-accent" />
    </svg>
  );
}

function at(share: number): string {
  return `${share * 100}%`;
}
