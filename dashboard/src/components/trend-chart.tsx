import type { ReactElement } from "react";
import type { Proportion } from "../../../src/statistics/rates.ts";

export interface TrendPoint extends Proportion {
  readonly label: string;
}

/** A share with its interval, point after point. It is drawn only: what it shows must also be there as text. */
export function TrendChart({ points }: { readonly points: readonly TrendPoint[] }): ReactElement {
  const x = (index: number): number => (points.length < 2 ? 50 : (100 * index) / (points.length - 1));
  const path = (shares: readonly number[]): readonly string[] =>
    shares.map((share, index) => `${x(index)},${100 - share * 100}`);
  const lows = path(points.map(({ low }) => low));
  const highs = path(points.map(({ high }) => high));
  const values = path(points.map(({ value }) => value));
  const labels = [points[0], points[Math.floor((points.length - 1) / 2)], points.at(-1)];
  return (
    <div aria-hidden="true" className="text-muted flex gap-2 px-1 pt-2 text-xs">
      <div className="flex h-24 flex-col justify-between text-right tabular-nums *:-my-2">
        <span>100%</span>
        <span>50%</span>
        <span>0%</span>
      </div>
      <div className="min-w-0 grow pr-2">
        <svg className="block h-24 w-full overflow-visible">
          {/* Drawn in a square that becomes as wide as the page; points stay round. */}
          <svg viewBox="0 0 100 100" preserveAspectRatio="none" className="overflow-visible">
            <path d="M0 0H100M0 50H100M0 100H100" className="stroke-line" vectorEffect="non-scaling-stroke" />
            <polygon points={[...highs, ...lows.toReversed()].join(" ")} className="fill-accent-soft" />
            <polyline
              points={values.join(" ")}
              className="stroke-accent fill-none stroke-2"
              vectorEffect="non-scaling-stroke"
            />
          </svg>
          {points.map(({ value }, index) => (
            // oxlint-disable-next-line react/no-array-index-key
            <circle
              key={index}
              cx={`${x(index)}%`}
              cy={`${100 - value * 100}%`}
              r="3"
              className="fill-accent"
            />
          ))}
        </svg>
        <div className="mt-1.5 flex justify-between tabular-nums">
          {labels.map((point, index) => (
            // oxlint-disable-next-line react/no-array-index-key
            <span
              key={index}
              className={index === 1 && points.length < 3 ? "hidden" : index === 1 ? "max-sm:hidden" : ""}
            >
              {point?.label}
            </span>
          ))}
        </div>
      </div>
    </div>
  );
}
