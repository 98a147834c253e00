import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactElement, type ReactNode, useEffect, useRef } from "react";
import type { TraceItem } from "../../../src/report/documents/documents.ts";
import { PlainText } from "../components/plain-text.tsx";
import { toneOf, useShownStatus, VerdictSign, wordOf } from "../components/verdict-badge.tsx";
import { compactJson, formatDuration } from "../format.ts";
import { arrowKeys, useFocusOnSelected } from "./in-view.ts";
import { isReason, itemStatus, wasRightlyRefused } from "./items.ts";
import { laneColour } from "./waterfall.tsx";
import type { Grade } from "../../../src/model/grade.ts";

/** The items of a trial from the first to the last. However many there are, only those in sight are on the page. */
export function ItemList({
  items,
  origin,
  lanes,
  selected,
  cited,
  follow,
  isOngoing,
  onSelect,
  onMove,
}: {
  readonly items: readonly TraceItem[];
  /** The zero of the times that are shown. */
  readonly origin: number;
  readonly lanes: readonly string[];
  readonly selected: number | undefined;
  /** The grades that cite an item, by its number. */
  readonly cited: ReadonlyMap<number, readonly Grade[]>;
  /** Keeps the end of the list in sight. */
  readonly follow: boolean;
  /** Whether the trial goes on. */
  readonly isOngoing: boolean;
  readonly onSelect: (seq: number) => void;
  /** Selects the item before (-1) or after (1) the selected one. */
  readonly onMove: (by: -1 | 1) => void;
}): ReactElement {
  const scroller = useRef<HTMLDivElement>(null);
  // oxlint-disable-next-line react/incompatible-library
  const virtualizer = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 33,
    overscan: 6,
    getItemKey: (index) => items[index]?.seq ?? index,
  });
  const selectedIndex = items.findIndex(({ seq }) => seq === selected);
  // With its details beside it, the list is smaller.
  const { width, height } = virtualizer.scrollRect ?? {};
  useEffect(() => {
    if (selectedIndex !== -1) virtualizer.scrollToIndex(selectedIndex, { align: "auto" });
  }, [selectedIndex, virtualizer, width, height]);
  useEffect(() => {
    if (follow && items.length > 0) virtualizer.scrollToIndex(items.length - 1);
  }, [follow, items.length, virtualizer]);
  useFocusOnSelected(scroller, selected);
  const tabStop = selectedIndex === -1 ? items.find(({ kind }) => kind !== "phase")?.seq : selected;

  return (
    // The keys move between the buttons in it.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
    <section
      ref={scroller}
      className={`${selected === undefined ? "h-[70dvh]" : "h-[45dvh]"} overflow-y-auto lg:h-auto lg:min-h-0 lg:flex-1`}
      // A list that scrolls must be reachable with the keyboard.
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      tabIndex={0}
      aria-label="What happened"
      onKeyDown={arrowKeys(onMove)}
    >
      <ol className="relative" style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map(({ index, start, key }) => {
          const item = items[index];
          if (item === undefined) return null;
          return (
            <li
              key={key}
              data-index={index}
              ref={virtualizer.measureElement}
              className="absolute top-0 left-0 w-full"
              style={{ transform: `translateY(${start}px)` }}
              aria-setsize={items.length}
              aria-posinset={index + 1}
            >
              {item.kind === "phase" ? (
                <PhaseRow item={item} />
              ) : (
                <ItemRow
                  item={item}
                  origin={origin}
                  lanes={lanes}
                  isSelected={item.seq === selected}
                  isOngoing={isOngoing}
                  isTabStop={item.seq === tabStop}
                  grades={cited.get(item.seq)}
                  onSelect={onSelect}
                />
              )}
            </li>
          );
        })}
      </ol>
    </section>
  );
}

function PhaseRow({ item }: { readonly item: Extract<TraceItem, { kind: "phase" }> }): ReactElement {
  return (
    <h2 className="bg-raised text-muted border-line flex justify-between border-b px-3 py-1 text-xs font-semibold tracking-wide uppercase">
      {item.name}
      {item.durationMs !== undefined && (
        <span className="font-normal normal-case tabular-nums">{formatDuration(item.durationMs)}</span>
      )}
    </h2>
  );
}

const marks = { ok: "", open: "border-l-accent", bad: "border-l-fail", quiet: "" } as const;

function ItemRow({
  item,
  origin,
  lanes,
  isSelected,
  isTabStop,
  isOngoing,
  grades,
  onSelect,
}: {
  readonly item: TraceItem;
  readonly origin: number;
  readonly lanes: readonly string[];
  readonly isSelected: boolean;
  readonly isTabStop: boolean;
  readonly isOngoing: boolean;
  readonly grades: readonly Grade[] | undefined;
  readonly onSelect: (seq: number) => void;
}): ReactElement {
  const status = itemStatus(item);
  return (
    <button
      type="button"
      tabIndex={isTabStop ? 0 : -1}
      aria-pressed={isSelected}
      onClick={() => onSelect(item.seq)}
      className={`border-line flex w-full items-baseline gap-2 border-b border-l-4 px-2 py-1.5 text-left -outline-offset-2 ${
        marks[status] === "" ? "border-l-transparent" : marks[status]
      } ${isSelected ? "bg-accent-soft" : "hover:bg-raised"}`}
    >
      <span className="text-muted w-16 shrink-0 text-right text-xs tabular-nums max-sm:w-12">
        {formatDuration(item.at - origin)}
      </span>
      <span className="min-w-0 flex-1">
        <ItemLine item={item} lanes={lanes} />
      </span>
      {grades !== undefined && <CitedBy grades={grades} />}
      {item.durationMs !== undefined && (
        <span className="text-muted shrink-0 text-xs tabular-nums">{formatDuration(item.durationMs)}</span>
      )}
      {status === "open" && !isOngoing && (
        <span className="text-error shrink-0 text-xs">no end recorded</span>
      )}
      {status === "open" && isOngoing && <Ongoing />}
    </button>
  );
}

/** Marks an item as running, or as unknown while the dashboard does not answer. */
function Ongoing(): ReactElement {
  const status = useShownStatus()("running");
  return (
    <span className={`inline-flex shrink-0 items-center gap-1 self-center text-xs ${toneOf(status).text}`}>
      <VerdictSign status={status} />
      {wordOf(status).toLowerCase()}
    </span>
  );
}

/** Says that grades rest on an item, in red if one of them is why the trial did not pass. It is not a verdict on the item. */
function CitedBy({ grades }: { readonly grades: readonly Grade[] }): ReactElement {
  const names = grades.map(({ grader, verdict }) => `${grader}: ${verdict}`).join(", ");
  return (
    <span
      className={`shrink-0 text-xs max-sm:w-14 max-sm:text-right ${grades.some(isReason) ? "text-fail" : "text-muted"}`}
      title={`Evidence of ${names}`}
    >
      {grades.some(isReason) ? "evidence of a fail" : "evidence"}
      <span className="sr-only"> of {names}</span>
    </span>
  );
}

const clamped = "line-clamp-6 break-words whitespace-pre-wrap";
const oneLine = "line-clamp-1 break-all";

/** An item in a line or, for what somebody said, in a few. */
function ItemLine({
  item,
  lanes,
}: {
  readonly item: TraceItem;
  readonly lanes: readonly string[];
}): ReactNode {
  switch (item.kind) {
    case "phase":
      return item.name;
    case "turn":
      return (
        <>
          <Tag>{item.by === undefined ? "User" : "Simulated user"}</Tag>
          <PlainText text={item.user.text} className={clamped} />
          {item.problem !== undefined && <Problem text={item.problem} />}
        </>
      );
    case "message":
      return (
        <>
          <Tag>Agent</Tag>
          <PlainText text={item.text.text} className={clamped} />
        </>
      );
    case "call":
      return (
        <>
          <span className="flex min-w-0 items-baseline gap-x-2 max-sm:flex-wrap">
            <SourceBadge item={item} lanes={lanes} />
            <PlainText
              text={item.tool === "" ? "(no name)" : item.tool}
              className="max-w-full shrink-0 font-mono font-medium break-all"
            />
            <PlainText
              text={compactJson(item.args.text)}
              className={`text-muted min-w-0 font-mono text-xs ${oneLine}`}
            />
            {item.status === "ok" && item.result !== undefined && (
              <span className="flex min-w-[30%] flex-1 items-baseline gap-x-2 text-xs">
                <span aria-hidden="true">→</span>
                <span className="sr-only">gives</span>
                <PlainText text={compactJson(item.result.text)} className={`min-w-0 font-mono ${oneLine}`} />
              </span>
            )}
          </span>
          <CallProblems item={item} />
        </>
      );
    case "step":
      return (
        <>
          <span className="flex min-w-0 items-baseline gap-x-2 max-sm:flex-wrap">
            <Tag>{item.stepType}</Tag>
            <PlainText text={item.name} className="max-w-full shrink-0 font-medium break-all" />
            {item.attempt > 1 && <span className="text-muted text-xs">attempt {item.attempt}</span>}
            <PlainText text={item.summary} className={`text-muted min-w-0 text-xs ${oneLine}`} />
          </span>
          {item.outcome !== undefined && item.outcome !== "passed" && (
            <span
              className={item.ignored === true || item.outcome === "skipped" ? "text-muted" : "text-fail"}
            >
              {item.outcome}
              {item.ignored === true && ", which changes no verdict"}{" "}
            </span>
          )}
          {item.checks
            .filter(({ passed }) => !passed)
            .map(({ name, message }) => (
              <Problem key={`${name} ${message}`} text={message} />
            ))}
          {item.error !== undefined && <Problem text={item.error} />}
        </>
      );
    case "request":
      return (
        <>
          <span className="text-muted flex min-w-0 items-baseline gap-2">
            <PlainText text={item.server} className="shrink-0 text-xs" />
            <span aria-hidden="true">{item.direction === "client-to-server" ? "→" : "←"}</span>
            <span className="sr-only">
              {item.direction === "client-to-server" ? "client to server" : "server to client"}
            </span>
            <PlainText text={item.method} className={`font-mono ${oneLine}`} />
          </span>
          {item.error !== undefined && <Problem text={item.error} />}
        </>
      );
    case "output":
      return (
        <span className="text-muted flex min-w-0 items-baseline gap-2">
          <span className="shrink-0 text-xs">
            <PlainText text={item.from} /> {item.stream}
          </span>
          <PlainText text={item.text.text} className={`font-mono text-xs ${oneLine}`} />
        </span>
      );
    case "model":
      return (
        <span className="text-muted">
          <PlainText text={item.model} />{" "}
          {item.retried !== undefined ? (
            <Problem text={`asked again: ${item.retried}`} />
          ) : (
            <span className="text-xs tabular-nums">
              {item.usage !== undefined &&
                `${item.usage.inputTokens} tokens in, ${item.usage.outputTokens} out `}
              {item.firstTokenMs !== undefined && `first token after ${formatDuration(item.firstTokenMs)} `}
              {item.purpose === "judge" && "(judge)"}
              {item.purpose === "user" && "(simulated user)"}
            </span>
          )}
        </span>
      );
    case "event":
      return item.problem === true ? (
        <Problem text={item.text} />
      ) : (
        <PlainText text={item.text} className={`text-muted ${oneLine}`} />
      );
  }
}

type Call = Extract<TraceItem, { kind: "call" }>;

/** Where a tool is from: one of a server, which the gateway recorded, or the agent's own. */
function SourceBadge({
  item,
  lanes,
}: {
  readonly item: Call;
  readonly lanes: readonly string[];
}): ReactElement {
  const { server, source } = item;
  return (
    <span className="bg-raised inline-flex shrink-0 items-center gap-1 rounded px-1.5 text-xs">
      {server !== undefined && (
        <span className={`size-2 rounded-full ${laneColour(server, lanes)}`} aria-hidden="true" />
      )}
      <PlainText text={server ?? source} />
    </span>
  );
}

function CallProblems({ item }: { readonly item: Call }): ReactNode {
  const words = { ok: undefined, error: "failed", rejected: "refused", pending: undefined }[item.status];
  const text = item.error ?? (item.status === "error" ? item.result?.text : undefined);
  if (wasRightlyRefused(item)) {
    const why = item.invalid?.map(({ problem }) => problem).join("; ") ?? "";
    return (
      <span className="text-muted line-clamp-3 text-xs break-words">
        <PlainText text={`refused, as it should be: ${why}`} />
      </span>
    );
  }
  return (
    <>
      {words !== undefined && <Problem text={text === undefined ? words : `${words}: ${text}`} />}
      {item.invalid?.slice(0, 3).map(({ pointer, problem }) => (
        <Problem
          key={pointer + problem}
          text={`argument ${pointer === "" ? "object" : pointer}: ${problem}`}
        />
      ))}
      {item.unrecorded === true && <Problem text="the agent reports this call, but no server received it" />}
      {item.fault !== undefined && (
        <span className="text-error block text-xs">injected fault: {item.fault}</span>
      )}
    </>
  );
}

function Problem({ text }: { readonly text: string }): ReactElement {
  return (
    <span className="text-fail line-clamp-3 text-xs break-words">
      <PlainText text={text} />
    </span>
  );
}

function Tag({ children }: { readonly children: ReactNode }): ReactElement {
  return <span className="bg-raised text-muted mr-2 rounded px-1.5 text-xs font-medium">{children}</span>;
}
