import { type ReactElement, useDeferredValue, useMemo } from "react";
import { excerptLength, type TrialDocument } from "../../../src/report/documents/documents.ts";
import { EmptyState } from "../components/states.tsx";
import { formatDuration } from "../format.ts";
import { type Shortcut, useShortcuts } from "../shortcuts.tsx";
import { focusSelected, useInView } from "./in-view.ts";
import { ItemDetails } from "./item-details.tsx";
import { ItemList } from "./item-list.tsx";
import {
  citations,
  hasLargeText,
  isEssential,
  itemAt,
  itemFinder,
  itemText,
  lanesOf,
  laneOf,
  originOf,
} from "./items.ts";
import { type Replay, type Speed, speeds, useReplay } from "./replay.ts";
import { Waterfall } from "./waterfall.tsx";

/** What is shown of a trajectory; it lives in the address. */
export interface TrajectorySearch {
  /** Number of an event of the item that is selected. */
  readonly event?: number;
  /** Everything, or what was said, called and checked, and what went wrong. */
  readonly show?: "all";
  /** Only items of this lane. */
  readonly lane?: string;
  readonly text?: string;
}

/** The trajectory of a trial: a waterfall, a list of what happened, and all that is known of the selected item. */
export function TrajectoryView({
  trial,
  search,
  onSearch,
}: {
  readonly trial: TrialDocument;
  readonly search: TrajectorySearch;
  readonly onSearch: (change: Partial<Record<keyof TrajectorySearch, string | number | undefined>>) => void;
}): ReactElement {
  const { items, servers, result, run, row } = trial;
  const lanes = useMemo(() => lanesOf({ items, servers }), [items, servers]);
  const find = useMemo(() => itemFinder(items), [items]);
  const cited = useMemo(() => citations(items, result?.grades ?? []), [items, result]);
  const origin = useMemo(() => originOf(items), [items]);
  const selected = search.event === undefined ? undefined : find(search.event);
  const listAndDetails = useInView(search.event);
  const text = useDeferredValue(search.text?.toLowerCase());
  const searched = useMemo(
    () =>
      items.filter(
        (item) =>
          (search.show === "all" || isEssential(item) || item.seq === selected?.seq) &&
          (search.lane === undefined || laneOf(item, servers) === search.lane),
      ),
    [items, servers, search.show, search.lane, selected?.seq],
  );
  const matching = useMemo(
    () =>
      text === undefined ? searched : searched.filter((item) => itemText(item).toLowerCase().includes(text)),
    [searched, text],
  );
  const limit = useMemo(
    () =>
      text !== undefined && searched.some(hasLargeText)
        ? `Of each text, the first ${excerptLength} characters are searched.`
        : undefined,
    [searched, text],
  );
  const replay = useReplay(items, matching);
  const { time } = replay;
  const isOngoing = row.state === "running" && run.state === "running";
  const shown = useMemo(
    () =>
      time === undefined
        ? matching
        : matching.filter(({ at }) => at <= time).map((item) => itemAt(item, time)),
    [matching, time],
  );
  const select = (event: number | undefined): void => {
    if (event === undefined) focusSelected();
    onSearch({ event });
  };
  const move = (by: -1 | 1): void => {
    const visible = shown.filter(({ kind }) => kind !== "phase");
    const index = visible.findIndex(({ seq }) => seq === selected?.seq);
    const next = index === -1 ? visible.at(by === 1 ? 0 : -1) : visible[index + by];
    if (next !== undefined) select(next.seq);
  };
  useShortcuts([
    { key: "j", does: "Select the next item", run: () => move(1) },
    { key: "k", does: "Select the previous item", run: () => move(-1) },
    { key: "Escape", does: "Close the details", run: () => select(undefined) },
    ...replayKeys(replay),
  ]);

  if (items.length === 0) {
    return (
      <EmptyState title="Nothing was recorded">
        <p>{withoutEvents[row.state]}</p>
      </EmptyState>
    );
  }
  return (
    <div className="flex min-h-0 flex-col gap-3 lg:max-h-[max(calc(100dvh-4rem),32rem)]">
      <Waterfall
        items={items}
        lanes={lanes}
        servers={servers}
        selected={selected?.seq}
        time={time}
        since={isOngoing ? trial.startedAt : undefined}
        origin={origin}
        onSelect={select}
      />
      <div className="flex shrink-0 flex-wrap items-center gap-2">
        <ReplayControls replay={replay} origin={origin} />
        <span className="flex-1" />
        <input
          type="search"
          className="control w-40"
          placeholder="Find text"
          aria-label="Find text in items"
          value={search.text ?? ""}
          onChange={({ target }) => onSearch({ text: target.value === "" ? undefined : target.value })}
        />
        <select
          className="control max-w-40"
          aria-label="Lane"
          value={search.lane ?? ""}
          onChange={({ target }) => onSearch({ lane: target.value === "" ? undefined : target.value })}
        >
          <option value="">All lanes</option>
          {lanes.map((lane) => (
            <option key={lane}>{lane}</option>
          ))}
        </select>
        <label className="flex items-center gap-1.5">
          <input
            type="checkbox"
            checked={search.show === "all"}
            onChange={({ target }) => onSearch({ show: target.checked ? "all" : undefined })}
          />
          Protocol and output
        </label>
        <output className="text-muted text-xs tabular-nums">
          {shown.length} of {items.length} items
          {limit !== undefined && `. ${limit}`}
        </output>
      </div>
      <div
        ref={listAndDetails}
        className={`grid min-h-0 flex-1 gap-3 lg:grid-rows-[minmax(0,1fr)] ${selected === undefined ? "" : "lg:grid-cols-[minmax(0,1fr)_minmax(20rem,26rem)] 2xl:grid-cols-[minmax(0,1fr)_minmax(20rem,46rem)]"}`}
      >
        <div className="panel flex min-h-0 flex-col overflow-hidden">
          {shown.length === 0 ? (
            <EmptyState title="No item is shown">
              <p>
                {time === undefined
                  ? ["Change the filters to see more.", limit].join(" ")
                  : "The replay has not come to an item yet."}
              </p>
            </EmptyState>
          ) : (
            <ItemList
              items={shown}
              origin={origin}
              lanes={lanes}
              selected={selected?.seq}
              cited={cited}
              follow={time !== undefined || (isOngoing && selected === undefined)}
              isOngoing={isOngoing || (time !== undefined && time < replay.end)}
              onSelect={select}
              onMove={move}
            />
          )}
        </div>
        {selected !== undefined && (
          <aside
            aria-label="Details of the selected item"
            className="panel order-first max-h-[45dvh] min-h-0 overflow-y-auto p-3 lg:order-none lg:max-h-none"
          >
            <ItemDetails
              key={selected.seq}
              place={{ run: run.id, trial: row.id }}
              item={time === undefined ? selected : itemAt(selected, time)}
              origin={origin}
              event={search.event}
              grades={cited.get(selected.seq) ?? []}
              onClose={() => select(undefined)}
            />
          </aside>
        )}
      </div>
    </div>
  );
}

const withoutEvents: Readonly<Record<TrialDocument["row"]["state"], string>> = {
  waiting: "The trial has not begun.",
  "not-run": "The run ended before the trial began.",
  running: "The trial has left no events yet.",
  ended: "The trial left no events.",
  "cut-off": "The trial left no events.",
};

function replayKeys(replay: Replay): readonly Shortcut[] {
  return [
    { key: "p", does: "Replay the trial, or pause", run: replay.toggle },
    { key: ".", does: "Replay: to the next item", run: () => replay.step(1) },
    { key: ",", does: "Replay: to the previous item", run: () => replay.step(-1) },
    { key: "0", does: "Replay: show everything again", run: replay.stop },
  ];
}

function ReplayControls({
  replay,
  origin,
}: {
  readonly replay: Replay;
  readonly origin: number;
}): ReactElement {
  const { time, isPlaying, speed, end, setSpeed, toggle, step, seek, stop } = replay;
  return (
    <fieldset aria-label="Replay" className="flex flex-wrap items-center gap-1">
      <button type="button" className="control" onClick={toggle} title="Replay or pause (p)">
        {isPlaying ? "Pause" : time === undefined ? "Replay" : "Play"}
      </button>
      <button
        type="button"
        className="control"
        onClick={() => step(-1)}
        aria-label="Previous item"
        title="Previous item (,)"
      >
        ◂
      </button>
      <button
        type="button"
        className="control"
        onClick={() => step(1)}
        aria-label="Next item"
        title="Next item (.)"
      >
        ▸
      </button>
      <select
        className="control"
        aria-label="Speed of the replay"
        value={speed}
        onChange={({ target }) => setSpeed(Number(target.value) as Speed)}
      >
        {speeds.map((each) => (
          <option key={each} value={each}>
            {each}×
          </option>
        ))}
      </select>
      {time !== undefined && (
        <>
          <input
            type="range"
            aria-label="Time of the replay"
            aria-valuetext={formatDuration(time - origin)}
            className="w-32 sm:w-48"
            min={0}
            max={end}
            step="any"
            value={time}
            onChange={({ target }) => seek(Number(target.value))}
          />
          <span className="text-muted w-28 text-xs tabular-nums">
            {formatDuration(time - origin)} of {formatDuration(end - origin)}
          </span>
          <button type="button" className="control" onClick={stop}>
            Show everything
          </button>
        </>
      )}
    </fieldset>
  );
}
