import { useEffect, useMemo, useState } from "react";
import type { TraceItem } from "../../../src/report/documents/documents.ts";
import { endOf } from "./items.ts";

export const speeds = [0.1, 0.5, 1, 2, 5, 10, 50] as const;
export type Speed = (typeof speeds)[number];

/** A trial shown again as it went. */
export interface Replay {
  /** Milliseconds since the trial's first event; undefined: everything is shown. */
  readonly time: number | undefined;
  readonly isPlaying: boolean;
  readonly speed: Speed;
  readonly end: number;
  readonly setSpeed: (speed: Speed) => void;
  readonly toggle: () => void;
  /** Goes to the item before (-1) or after (1) what is shown last, of those that the filters show. */
  readonly step: (by: -1 | 1) => void;
  readonly seek: (time: number) => void;
  /** Shows everything again. */
  readonly stop: () => void;
}

/** Milliseconds between two pictures. */
const framesEvery = 50;

export function useReplay(items: readonly TraceItem[], matching: readonly TraceItem[]): Replay {
  const [time, setTime] = useState<number>();
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState<Speed>(1);
  const end = useMemo(() => endOf(items), [items]);

  useEffect(() => {
    if (!isPlaying) return;
    let last = performance.now();
    const timer = setInterval(() => {
      const now = performance.now();
      const passed = (now - last) * speed;
      last = now;
      setTime((before = 0) => Math.min(end, before + passed));
    }, framesEvery);
    return () => clearInterval(timer);
  }, [isPlaying, speed, end]);

  const hasEnded = time !== undefined && time >= end;
  if (isPlaying && hasEnded) setPlaying(false);

  return {
    time,
    isPlaying,
    speed,
    end,
    setSpeed,
    toggle() {
      if (!isPlaying && (time === undefined || hasEnded)) setTime(0);
      setPlaying(!isPlaying);
    },
    step(by) {
      setPlaying(false);
      setTime((before) => stepped(matching, before ?? (by === 1 ? -1 : end), by));
    },
    seek(to) {
      setTime(Math.min(end, Math.max(0, to)));
    },
    stop() {
      setPlaying(false);
      setTime(undefined);
    },
  };
}

/** The time of the next item that begins after a time, or of the last one before it. Items are not in the order of their times. */
function stepped(items: readonly TraceItem[], time: number, by: -1 | 1): number {
  let nearest: number | undefined;
  for (const { kind, at } of items) {
    if (kind === "phase" || (by === 1 ? at <= time : at >= time)) continue;
    if (nearest === undefined || (by === 1 ? at < nearest : at > nearest)) nearest = at;
  }
  return nearest ?? (by === 1 ? Math.max(0, time) : 0);
}
