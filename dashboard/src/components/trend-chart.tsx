import { type ReactElement, useEffect, useRef } from "react";
import uPlot from "uplot";

export interface TrendPoint {
  readonly label: string;
  /** 0 to 1. */
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

const height = 132;

/**
 * A share with its interval, point after point. It is drawn only, in the colours of the moment: what it shows must also be
 * there as text.
 */
export function TrendChart({ points }: { readonly points: readonly TrendPoint[] }): ReactElement {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const chart = new uPlot(optionsFor(element, points), seriesOf(points), element);
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [points]);
  return <div ref={place} aria-hidden="true" style={{ height }} className="overflow-hidden" />;
}

function seriesOf(points: readonly TrendPoint[]): uPlot.AlignedData {
  return [
    points.map((_, index) => index),
    points.map(({ low }) => low * 100),
    points.map(({ high }) => high * 100),
    points.map(({ value }) => value * 100),
  ];
}

function optionsFor(element: HTMLElement, points: readonly TrendPoint[]): uPlot.Options {
  const { fontFamily } = getComputedStyle(element);
  const colourOf = (name: string): string => {
    const probe = document.createElement("span");
    probe.style.color = `var(--color-${name})`;
    element.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const [accent, soft, line, muted] = ["accent", "accent-soft", "line", "muted"].map(colourOf);
  const axis = { stroke: muted ?? "", font: `11px ${fontFamily}`, ticks: { show: false } };
  return {
    width: element.clientWidth,
    height,
    padding: [8, 32, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false, range: [-0.5, points.length - 0.5] }, y: { range: [0, 104] } },
    series: [
      {},
      { stroke: soft ?? "", width: 1, points: { show: false } },
      { stroke: soft ?? "", width: 1, points: { show: false } },
      { stroke: accent ?? "", width: 2, points: { show: true, size: 6, fill: accent ?? "" } },
    ],
    bands: [{ series: [2, 1], fill: soft ?? "" }],
    axes: [
      {
        ...axis,
        size: 28,
        space: 120,
        grid: { show: false },
        incrs: [1, 2, 5, 10, 20, 50, 100],
        values: (_, splits) => splits.map((index) => points[index]?.label ?? ""),
      },
      {
        ...axis,
        size: 48,
        grid: { stroke: line ?? "", width: 1 },
        splits: [0, 50, 100],
        values: (_, splits) => splits.map((value) => `${value}%`),
      },
    ],
  };
}
