import { type PointerEvent, type ReactElement, useEffect, useMemo, useRef, useState } from "react";
import type { TraceItem } from "../../../src/report/documents/documents.ts";
import { useElapsed } from "../components/numbers.tsx";
import { PlainText } from "../components/plain-text.tsx";
import { formatDuration } from "../format.ts";
import { useShortcuts } from "../shortcuts.tsx";
import { agentLane, endOf, itemStatus, itemText, laneOf, stepLane } from "./items.ts";

const laneHeight = 22;
const axisHeight = 18;
/** In pixels: what is shorter would not be seen. */
const narrowest = 3;
const barMargin = 4;
const clickTolerance = 4;
/** How many times as large a step makes what is shown. */
const zoomStep = 2;
/** The share of what is shown by which a step moves. */
const panStep = 0.25;
/** Shortest visible range in milliseconds; trials are not recorded with a finer clock. */
const minRangeLength = 0.1;
/** More lanes scroll. */
const maxShownLanes = 10;

interface Bar {
  readonly item: TraceItem;
  readonly lane: number;
  readonly from: number;
  /** Infinite until it has ended. */
  readonly to: number;
  readonly look: BarLook;
}

/** How a bar is drawn, beside the colour of its lane. */
type BarLook = keyof typeof barLooks;

/** What each look means, and the class of its sample in the legend. */
const barLooks = {
  plain: { means: "message, call or step", sample: "bg-ink h-3.5" },
  pale: { means: "turn, protocol and output", sample: "bg-ink h-3.5 opacity-30" },
  failed: { means: "failed", sample: "bg-fail h-[18px]" },
  open: { means: "not ended", sample: "border-ink h-3.5 border border-dashed" },
} as const;

function lookOf(item: TraceItem): BarLook {
  const status = itemStatus(item);
  if (status === "bad") return "failed";
  if (status === "open") return "open";
  return status === "quiet" || item.kind === "turn" ? "pale" : "plain";
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * What happened when: one lane for the agent, for each server and for the steps, with real durations. A click selects an item;
 * a range that is drawn is enlarged, as are buttons and keys. The list of items says the same to those who cannot see it.
 */
export function Waterfall({
  items,
  lanes,
  servers,
  selected,
  time,
  since,
  origin,
  onSelect,
}: {
  readonly items: readonly TraceItem[];
  readonly lanes: readonly string[];
  readonly servers: readonly string[];
  readonly selected: number | undefined;
  readonly time: number | undefined;
  /** Start of a trial that is still running; bars without an end grow from there. */
  readonly since: string | undefined;
  /** Where its time begins; what was before is folded. */
  readonly origin: number;
  readonly onSelect: (seq: number) => void;
}): ReactElement {
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(canvas);
  const [zoom, setZoom] = useState<Range>();
  const [drag, setDrag] = useState<Range>();
  const [hovered, setHovered] = useState<TraceItem>();
  const bars = useMemo(() => barsOf(items, lanes, servers), [items, lanes, servers]);
  const elapsed = useElapsed(since);
  const end = useMemo(() => Math.max(1, endOf(items)), [items]);
  const [isUnfolded, setUnfolded] = useState(false);
  const selectedItem = useMemo(() => items.find(({ seq }) => seq === selected), [items, selected]);
  const isBefore = [selectedItem?.at, time].some((at) => at !== undefined && at < origin);
  const from = isUnfolded || isBefore ? 0 : origin;
  const whole = useMemo<Range>(
    () => ({ from, to: Math.max(end, elapsed ?? 0, from + 1) }),
    [from, end, elapsed],
  );
  const range = zoom ?? whole;
  const isWhole = zoom === undefined;
  const show = (next: Range): void => setZoom(fitted(next, whole));
  const enlarge = (by: number): void => show(scaled(range, by, selectedItem?.at ?? time));
  const pan = (by: number): void => {
    const way = (range.to - range.from) * by;
    show({ from: range.from + way, to: range.to + way });
  };
  useShortcuts([
    { key: "+", does: "Waterfall: enlarge", run: () => enlarge(zoomStep) },
    { key: "-", does: "Waterfall: make smaller", run: () => enlarge(1 / zoomStep) },
    { key: "h", does: "Waterfall: show what was earlier", run: () => pan(-panStep) },
    { key: "l", does: "Waterfall: show what was later", run: () => pan(panStep) },
    { key: "a", does: "Waterfall: show all", run: () => setZoom(undefined) },
  ]);
  const [shownItem, setShownItem] = useState(selectedItem);
  if (shownItem !== selectedItem) {
    setShownItem(selectedItem);
    if (zoom !== undefined && selectedItem !== undefined) setZoom(fitted(moved(zoom, selectedItem), whole));
  }
  const looks = useMemo(() => new Set(bars.map(({ look }) => look)), [bars]);
  const height = lanes.length * laneHeight + axisHeight;
  const perMs = width / (range.to - range.from);
  const theme = useThemeChanges();

  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (canvas.current === null || context === null || context === undefined || width === 0) return;
    const ratio = window.devicePixelRatio;
    canvas.current.width = Math.round(width * ratio);
    canvas.current.height = Math.round(height * ratio);
    context.scale(ratio, ratio);
    draw(context, {
      bars,
      lanes,
      range,
      origin,
      end: whole.to,
      width,
      height,
      selected,
      time,
      drag,
      colours: coloursOf(canvas.current),
    });
    // The theme changes the colours that are computed from the style sheet.
    // oxlint-disable-next-line react/exhaustive-effect-dependencies
  }, [bars, lanes, range, origin, whole, width, height, selected, time, drag, theme]);

  const timeAt = (event: PointerEvent): number =>
    range.from + (event.clientX - event.currentTarget.getBoundingClientRect().left) / perMs;
  const itemAt = (event: PointerEvent): TraceItem | undefined => {
    const y = event.clientY - event.currentTarget.getBoundingClientRect().top;
    return barAt(bars, {
      time: timeAt(event),
      lane: Math.floor((y - axisHeight) / laneHeight),
      slack: clickTolerance / perMs,
    })?.item;
  };

  return (
    <section aria-label="Waterfall" className="panel shrink-0 overflow-hidden" data-testid="waterfall">
      <div
        className="relative flex overflow-y-auto"
        style={{ maxHeight: maxShownLanes * laneHeight + axisHeight }}
        // Lanes that scroll must be reachable with the keyboard.
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        {...(lanes.length > maxShownLanes ? { tabIndex: 0 } : {})}
      >
        <ul
          aria-label="Lanes of the waterfall"
          className="border-line w-24 shrink-0 border-r pt-[18px] text-xs sm:w-36"
        >
          {lanes.map((lane) => (
            <li key={lane} className="flex h-[22px] items-center gap-1.5 px-2" title={lane}>
              <span
                className={`size-2 shrink-0 rounded-full ${laneColour(lane, lanes)}`}
                aria-hidden="true"
              />
              <PlainText text={lane} className="truncate" />
            </li>
          ))}
        </ul>
        <canvas
          ref={canvas}
          // oxlint-disable-next-line jsx-a11y/prefer-tag-over-role
          role="img"
          aria-label="Waterfall of the trial; the list below says the same"
          className="min-w-0 flex-1 cursor-crosshair touch-pan-y"
          // oxlint-disable-next-line react/forbid-dom-props
          style={{ height, width: 0 }}
          onPointerDown={(event) => {
            if (event.button !== 0) return;
            event.currentTarget.setPointerCapture(event.pointerId);
            setDrag({ from: timeAt(event), to: timeAt(event) });
          }}
          onPointerMove={(event) => {
            if (drag !== undefined) setDrag({ ...drag, to: timeAt(event) });
            setHovered(itemAt(event));
          }}
          onPointerLeave={() => setHovered(undefined)}
          onPointerCancel={() => setDrag(undefined)}
          onPointerUp={(event) => {
            if (drag === undefined) return;
            setDrag(undefined);
            const [from, to] = [drag.from, drag.to].toSorted((a, b) => a - b) as [number, number];
            if ((to - from) * perMs > clickTolerance) show({ from, to });
            else {
              const item = itemAt(event);
              if (item !== undefined) onSelect(item.seq);
            }
          }}
        />
        <p
          className="bg-surface pointer-events-none absolute top-0 right-1 max-w-[60%] truncate px-1 text-xs"
          aria-hidden="true"
        >
          {hovered !== undefined && (
            <>
              <PlainText text={itemText(hovered).slice(0, 80)} />{" "}
              {hovered.durationMs !== undefined && (
                <span className="text-muted">{formatDuration(hovered.durationMs)}</span>
              )}
            </>
          )}
        </p>
      </div>
      <div className="border-line text-muted flex flex-wrap items-center gap-x-4 gap-y-1 border-t px-2 py-1 text-xs">
        <ul aria-label="Legend of the waterfall" className="flex flex-wrap gap-x-3 gap-y-1">
          {Object.entries(barLooks).map(
            ([look, { means, sample }]) =>
              looks.has(look as BarLook) && (
                <li key={look} className="flex items-center gap-1.5">
                  <span aria-hidden="true" className={`inline-block w-3.5 shrink-0 ${sample}`} />
                  {means}
                </li>
              ),
          )}
        </ul>
        {origin > 0 && (
          <button
            type="button"
            className="text-accent hover:underline"
            aria-expanded={from === 0}
            onClick={() => {
              setZoom(undefined);
              setUnfolded(!isUnfolded);
            }}
          >
            {from === 0 ? "Fold" : "Show"} the start-up ({formatDuration(origin)})
          </button>
        )}
        <span className="ml-auto flex items-center gap-1">
          <output className="mr-1 tabular-nums">
            {isWhole ? "" : `${formatDuration(range.from - origin)} to ${formatDuration(range.to - origin)}`}
          </output>
          {!isWhole && (
            <>
              <ZoomButton sign="◂" name="Earlier" shortcut="h" onClick={() => pan(-panStep)} />
              <ZoomButton sign="▸" name="Later" shortcut="l" onClick={() => pan(panStep)} />
              <ZoomButton sign="−" name="Make smaller" shortcut="-" onClick={() => enlarge(1 / zoomStep)} />
            </>
          )}
          <ZoomButton sign="+" name="Enlarge" shortcut="+" onClick={() => enlarge(zoomStep)} />
          {!isWhole && (
            <button
              type="button"
              className="control h-6!"
              title="Show all (a)"
              onClick={() => setZoom(undefined)}
            >
              Show all
            </button>
          )}
        </span>
      </div>
    </section>
  );
}

function ZoomButton({
  sign,
  name,
  shortcut,
  onClick,
}: {
  readonly sign: string;
  readonly name: string;
  readonly shortcut: string;
  readonly onClick: () => void;
}): ReactElement {
  return (
    <button
      type="button"
      className="control h-6! px-2!"
      aria-label={`${name} in the waterfall`}
      title={`${name} (${shortcut})`}
      onClick={onClick}
    >
      {sign}
    </button>
  );
}

/** A range `by` times as large on the screen, around a time if it is in the range, or else around its middle. */
function scaled({ from, to }: Range, by: number, around: number | undefined): Range {
  const centre = around !== undefined && around >= from && around <= to ? around : (from + to) / 2;
  return { from: centre - (centre - from) / by, to: centre + (to - centre) / by };
}

/** A range as it can be shown: within the whole, and not too short. Undefined: the whole. */
function fitted({ from, to }: Range, whole: Range): Range | undefined {
  const length = Math.max(minRangeLength, to - from);
  if (length >= whole.to - whole.from) return undefined;
  const start = Math.min(Math.max(whole.from, from), whole.to - length);
  return { from: start, to: start + length };
}

/** A range of the same length, in which an item begins. */
function moved({ from, to }: Range, { at }: TraceItem): Range {
  if (at >= from && at <= to) return { from, to };
  const half = (to - from) / 2;
  return { from: at - half, to: at + half };
}

function barsOf(
  items: readonly TraceItem[],
  lanes: readonly string[],
  servers: readonly string[],
): readonly Bar[] {
  return items.flatMap((item) => {
    const lane = lanes.indexOf(laneOf(item, servers) ?? "");
    if (lane === -1) return [];
    const look = lookOf(item);
    const isOpen = look === "open" || (item.kind === "turn" && item.reason === undefined);
    return [{ item, lane, from: item.at, to: isOpen ? Infinity : item.at + (item.durationMs ?? 0), look }];
  });
}

/** The shortest bar at a place, since a long one may be around it. */
function barAt(
  bars: readonly Bar[],
  { time, lane, slack }: { readonly time: number; readonly lane: number; readonly slack: number },
): Bar | undefined {
  let best: Bar | undefined;
  for (const bar of bars) {
    if (bar.lane !== lane || time < bar.from - slack || time > bar.to + slack) continue;
    if (best === undefined || bar.to - bar.from <= best.to - best.from) best = bar;
  }
  return best;
}

interface Colours {
  readonly line: string;
  readonly ink: string;
  readonly muted: string;
  readonly accent: string;
  readonly fail: string;
  readonly raised: string;
  readonly lane: (index: number) => string;
}

interface Drawing {
  readonly bars: readonly Bar[];
  readonly lanes: readonly string[];
  readonly range: Range;
  readonly origin: number;
  /** Where bars of items without an end are drawn to. */
  readonly end: number;
  readonly width: number;
  readonly height: number;
  readonly selected: number | undefined;
  readonly time: number | undefined;
  readonly drag: Range | undefined;
  readonly colours: Colours;
}

function draw(context: CanvasRenderingContext2D, drawing: Drawing): void {
  const { bars, lanes, range, origin, end, width, height, selected, time, drag, colours } = drawing;
  const perMs = width / (range.to - range.from);
  const x = (at: number): number => (at - range.from) * perMs;
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const sinceOrigin of ticks({ from: range.from - origin, to: range.to - origin }, width)) {
    const tick = sinceOrigin + origin;
    context.fillStyle = colours.line;
    context.fillRect(Math.round(x(tick)), axisHeight, 1, height);
    context.fillStyle = colours.muted;
    const label = formatDuration(sinceOrigin);
    if (x(tick) + 3 + context.measureText(label).width <= width)
      context.fillText(label, x(tick) + 3, axisHeight / 2);
  }
  for (const { item, lane, from, to, look } of bars) {
    // A bar that reaches far beyond what is shown is cut, so that its dashes are few.
    const left = Math.max(Math.min(x(from), width - narrowest), -barMargin);
    const barWidth = Math.max(narrowest, Math.min(x(Math.min(to, end)), width + barMargin) - left);
    if (x(from) > width || left + barWidth < 0) continue;
    const isPast = time === undefined || item.at <= time;
    const inset = look === "failed" ? 2 : barMargin;
    const [top, barHeight] = [axisHeight + lane * laneHeight + inset, laneHeight - 2 * inset];
    context.globalAlpha = !isPast ? 0.15 : look === "pale" ? 0.3 : 1;
    context.fillStyle = look === "failed" ? colours.fail : colours.lane(lane);
    if (look === "open") {
      context.strokeStyle = colours.lane(lane);
      context.lineWidth = 1.5;
      context.setLineDash([4, 3]);
      context.strokeRect(left, top, barWidth, barHeight);
      context.setLineDash([]);
    } else context.fillRect(left, top, barWidth, barHeight);
    context.globalAlpha = 1;
    if (item.seq !== selected) continue;
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    context.strokeRect(left - 1, top - 1, barWidth + 2, barHeight + 2);
  }
  for (let lane = 0; lane < lanes.length; lane += 1) {
    context.fillStyle = colours.line;
    context.fillRect(0, axisHeight + lane * laneHeight, width, 1);
  }
  if (time !== undefined) {
    context.fillStyle = colours.accent;
    context.fillRect(x(time) - 1, 0, 2, height);
  }
  if (drag !== undefined) {
    context.globalAlpha = 0.2;
    context.fillStyle = colours.accent;
    context.fillRect(x(drag.from), 0, x(drag.to) - x(drag.from), height);
    context.globalAlpha = 1;
  }
}

/** Round times, about one in 100 pixels. */
function ticks({ from, to }: Range, width: number): readonly number[] {
  const rough = ((to - from) / Math.max(1, width)) * 100;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) ?? rough;
  const first = Math.ceil(from / step);
  return Array.from(
    { length: Math.max(0, Math.floor(to / step) - first + 1) },
    (_, index) => (first + index) * step,
  );
}

/** Lanes are told apart by their labels too; colours begin again after six. */
const laneColours = ["bg-accent", "bg-lane-1", "bg-lane-2", "bg-lane-3", "bg-lane-4", "bg-lane-5"] as const;

/** The class of the background that marks a lane. */
export function laneColour(lane: string, lanes: readonly string[]): string {
  if (lane === agentLane) return laneColours[0];
  if (lane === stepLane) return "bg-muted";
  const index = lanes.filter((each) => each !== agentLane).indexOf(lane);
  return laneColours[1 + (index % (laneColours.length - 1))] ?? laneColours[1];
}

function coloursOf(element: HTMLElement): Colours {
  const style = getComputedStyle(element);
  // A colour that depends on light or dark is only resolved where it is used.
  const probe = document.createElement("span");
  element.parentElement?.append(probe);
  const resolved = (name: string): string => {
    probe.style.color = `var(--color-${name})`;
    return getComputedStyle(probe).color || style.color;
  };
  const lanes = [...(element.previousElementSibling?.querySelectorAll("li > span:first-child") ?? [])].map(
    (mark) => getComputedStyle(mark).backgroundColor,
  );
  const colours = {
    line: resolved("line"),
    ink: resolved("ink"),
    muted: resolved("muted"),
    accent: resolved("accent"),
    fail: resolved("fail"),
    raised: resolved("raised"),
  };
  probe.remove();
  return { ...colours, lane: (index) => lanes[index] ?? colours.accent };
}

/** The width of an element, kept when the window changes. */
function useWidth(element: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const parent = element.current?.parentElement;
    if (element.current === null || parent === null || parent === undefined) return;
    const canvas = element.current;
    const observer = new ResizeObserver(() => setWidth(Math.max(0, canvas.getBoundingClientRect().width)));
    observer.observe(parent);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

/** A number that changes when light becomes dark: what is drawn has to be drawn again. */
function useThemeChanges(): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const onChange = (): void => setChanges((count) => count + 1);
    const media = window.matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", onChange);
    const observer = new MutationObserver(onChange);
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      media.removeEventListener("change", onChange);
      observer.disconnect();
    };
  }, []);
  return changes;
}
