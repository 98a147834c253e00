import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactElement, useDeferredValue, useEffect, useMemo, useRef } from "react";
import type { EventRow, TrialDocument } from "../../../src/report/documents/documents.ts";
import { ExcerptView } from "../components/excerpt-view.tsx";
import { PlainText } from "../components/plain-text.tsx";
import { EmptyState } from "../components/states.tsx";
import { formatDuration } from "../format.ts";
import { useShortcuts } from "../shortcuts.tsx";
import { arrowKeys, focusSelected, useFocusOnSelected, useInView } from "./in-view.ts";
import { originOf } from "./items.ts";

/** In characters; more than the JSON of any event has. */
const unknownLength = Number.MAX_SAFE_INTEGER;

/** Every event of a trial as it was recorded, JSON-RPC messages included. */
export function EventList({
  trial,
  selected,
  text,
  onSelect,
  onText,
}: {
  readonly trial: TrialDocument;
  readonly selected: number | undefined;
  readonly text: string | undefined;
  readonly onSelect: (seq: number | undefined) => void;
  readonly onText: (text: string | undefined) => void;
}): ReactElement {
  const { events, items, run, row } = trial;
  const origin = useMemo(() => originOf(items), [items]);
  const scroller = useRef<HTMLDivElement>(null);
  const listAndDetails = useInView(selected);
  const wanted = useDeferredValue(text?.toLowerCase());
  const shown = useMemo(
    () =>
      wanted === undefined
        ? events
        : events.filter((event) => `${event.type} ${event.text}`.toLowerCase().includes(wanted)),
    [events, wanted],
  );
  // oxlint-disable-next-line react/incompatible-library
  const virtualizer = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 30,
    overscan: 12,
  });
  const selectedIndex = shown.findIndex(({ seq }) => seq === selected);
  useEffect(() => {
    if (selectedIndex !== -1) virtualizer.scrollToIndex(selectedIndex, { align: "auto" });
  }, [selectedIndex, virtualizer]);
  useFocusOnSelected(scroller, selected);
  const tabStop = selectedIndex === -1 ? shown[0]?.seq : selected;

  const close = (): void => {
    focusSelected();
    onSelect(undefined);
  };
  const move = (by: -1 | 1): void => {
    const next = selectedIndex === -1 ? shown.at(by === 1 ? 0 : -1) : shown[selectedIndex + by];
    if (next !== undefined) onSelect(next.seq);
  };
  useShortcuts([
    { key: "j", does: "Select the next event", run: () => move(1) },
    { key: "k", does: "Select the previous event", run: () => move(-1) },
    { key: "Escape", does: "Close the event", run: close },
  ]);

  if (events.length === 0) return <EmptyState title="Nothing was recorded" />;
  return (
    <div className="flex flex-col gap-3 lg:h-[calc(100dvh-11rem)]">
      <div className="flex items-center gap-2">
        <input
          type="search"
          className="control w-60"
          placeholder="Find a type or text"
          aria-label="Find a type or text in events"
          value={text ?? ""}
          onChange={({ target }) => onText(target.value === "" ? undefined : target.value)}
        />
        <output className="text-muted text-xs tabular-nums">
          {shown.length} of {events.length} events
          {wanted !== undefined && ". Only the lines of this list are searched."}
        </output>
      </div>
      <div
        ref={listAndDetails}
        className={`grid min-h-0 flex-1 gap-3 ${selected === undefined ? "" : "lg:grid-cols-2"}`}
      >
        {/* The keys move between the buttons in it. */}
        {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions */}
        <section
          ref={scroller}
          className={`panel ${selected === undefined ? "h-[70dvh]" : "h-[45dvh]"} overflow-y-auto lg:h-auto`}
          // A list that scrolls must be reachable with the keyboard.
          // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
          tabIndex={0}
          aria-label="Events"
          onKeyDown={arrowKeys(move)}
        >
          <ol className="relative" style={{ height: virtualizer.getTotalSize() }}>
            {virtualizer.getVirtualItems().map(({ index, start, key }) => {
              const event = shown[index];
              return event === undefined ? null : (
                <li
                  key={key}
                  className="absolute top-0 left-0 w-full"
                  style={{ transform: `translateY(${start}px)` }}
                  aria-setsize={shown.length}
                  aria-posinset={index + 1}
                >
                  <EventButton
                    origin={origin}
                    event={event}
                    isSelected={event.seq === selected}
                    isTabStop={event.seq === tabStop}
                    onSelect={onSelect}
                  />
                </li>
              );
            })}
          </ol>
        </section>
        {selected !== undefined && (
          <aside
            aria-label="The selected event"
            className="panel order-first h-[45dvh] min-h-0 overflow-y-auto p-3 lg:order-none lg:h-auto"
          >
            <div className="mb-2 flex items-center justify-between">
              <h2 className="text-base font-semibold">Event {selected}</h2>
              <button type="button" className="control" onClick={close} aria-label="Close the event">
                ✕
              </button>
            </div>
            <ExcerptView
              key={selected}
              run={run.id}
              trial={row.id}
              isOpen
              excerpt={{ text: "", length: unknownLength, type: "json", seq: selected, pointer: "" }}
            />
          </aside>
        )}
      </div>
    </div>
  );
}

function EventButton({
  event,
  origin,
  isSelected,
  isTabStop,
  onSelect,
}: {
  readonly event: EventRow;
  /** The zero of the times that are shown. */
  readonly origin: number;
  readonly isSelected: boolean;
  readonly isTabStop: boolean;
  readonly onSelect: (seq: number) => void;
}): ReactElement {
  const { seq, at, type, text } = event;
  return (
    <button
      type="button"
      tabIndex={isTabStop ? 0 : -1}
      aria-pressed={isSelected}
      onClick={() => onSelect(seq)}
      className={`border-line flex h-[30px] w-full items-center gap-2 border-b px-2 text-left text-xs -outline-offset-2 ${
        isSelected ? "bg-accent-soft" : "hover:bg-raised"
      }`}
    >
      <span className="text-muted w-8 shrink-0 sm:w-10 text-right tabular-nums">{seq}</span>
      <span className="text-muted w-14 shrink-0 sm:w-16 text-right tabular-nums">
        {formatDuration(at - origin)}
      </span>
      <span className="w-28 shrink-0 truncate font-mono sm:w-40">{type}</span>
      <PlainText
        text={text.startsWith(`${type} `) ? text.slice(type.length + 1) : text}
        className="min-w-0 truncate"
      />
    </button>
  );
}
