import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactElement, type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { type Shortcut, useShortcuts } from "../shortcuts.tsx";

/** Tables of more rows draw only those that are in view. */
const maxShownRows = 100;
const rowHeight = 34;

/** The rows of a table: a table row at a position, and which it is for those who do not see it. */
export type RenderRow<Row> = (
  row: Row,
  attributes: { readonly "aria-rowindex": number; readonly style: { readonly height: number } },
) => ReactNode;

/** A table with any number of rows of one height. Keys go from link to link in its rows. */
export function LongTable<Row>({
  label,
  head,
  foot,
  columns,
  rows,
  renderRow,
  width = 0,
  className = "",
}: {
  /** What it is a table of. */
  readonly label: string;
  /** Its first row. */
  readonly head?: ReactNode;
  /** Its last row, which stays in sight. */
  readonly foot?: ReactNode;
  /** Number of columns. */
  readonly columns: number;
  readonly rows: readonly Row[];
  readonly renderRow: RenderRow<Row>;
  /** In rem: its least width. */
  readonly width?: number;
  readonly className?: string;
}): ReactElement {
  const scroller = useRef<HTMLDivElement>(null);
  const isLong = rows.length > maxShownRows;
  // oxlint-disable-next-line react/incompatible-library
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 6,
    enabled: isLong,
  });
  const inView = virtualizer.getVirtualItems();
  const from = isLong ? (inView[0]?.index ?? 0) : 0;
  const to = isLong ? (inView.at(-1)?.index ?? -1) + 1 : rows.length;
  const heads = head === undefined ? 0 : 1;
  useShortcuts(rowKeys);
  const side = useSide(scroller);
  return (
    <div className="relative">
      <div
        ref={scroller}
        // What scrolls must be reachable with the keyboard.
        // oxlint-disable-next-line jsx-a11y/prefer-tag-over-role
        role="group"
        aria-label={label}
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
        data-side={side}
        className={`panel overflow-x-auto ${isLong ? "max-h-[calc(100dvh-8rem)] overflow-y-auto" : ""}`}
      >
        <table
          aria-rowcount={rows.length + heads + (foot === undefined ? 0 : 1)}
          className={`w-full border-separate border-spacing-0 ${className}`}
          style={{ minWidth: `${width}rem` }}
        >
          <caption className="sr-only">{label}</caption>
          {head !== undefined && (
            <thead>
              <tr aria-rowindex={1}>{head}</tr>
            </thead>
          )}
          <tbody data-rows>
            <Spacer rows={from} columns={columns} />
            {rows
              .slice(from, to)
              .map((row, index) =>
                renderRow(row, { "aria-rowindex": from + index + 1 + heads, style: { height: rowHeight } }),
              )}
            <Spacer rows={rows.length - to} columns={columns} />
          </tbody>
          {foot !== undefined && (
            <tfoot>
              <tr aria-rowindex={rows.length + heads + 1} style={{ height: rowHeight }}>
                {foot}
              </tr>
            </tfoot>
          )}
        </table>
      </div>
      {side === "more" && (
        <div
          aria-hidden="true"
          className="from-ink/20 pointer-events-none absolute inset-y-px right-px z-30 w-4 rounded-r-lg bg-linear-to-l to-transparent"
        />
      )}
    </div>
  );
}

/** Whether a table fits into its scroller, has more to the right of what is shown, or is shown to its right end. */
type Side = "fits" | "more" | "end";

function useSide(scroller: RefObject<HTMLElement | null>): Side {
  const [side, setSide] = useState<Side>("fits");
  const fits = side === "fits";
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const update = (): void => {
      const excess = element.scrollWidth - element.clientWidth;
      setSide(excess <= 1 ? "fits" : excess - element.scrollLeft > 1 ? "more" : "end");
    };
    const observer = new ResizeObserver(update);
    observer.observe(element);
    // Most tables fit, and are scrolled down only.
    if (!fits) element.addEventListener("scroll", update, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", update);
    };
  }, [scroller, fits]);
  return side;
}

/** Takes the place of rows that are not drawn. */
function Spacer({ rows, columns }: { readonly rows: number; readonly columns: number }): ReactElement | null {
  if (rows === 0) return null;
  return (
    <tr aria-hidden="true">
      {/* oxlint-disable-next-line jsx-a11y/control-has-associated-label */}
      <td colSpan={columns} style={{ height: rows * rowHeight, padding: 0 }} />
    </tr>
  );
}

const rowKeys: readonly Shortcut[] = [
  { key: "j", does: "Next row of the table", run: () => focusRow(1) },
  { key: "k", does: "Previous row of the table", run: () => focusRow(-1) },
];

/** Puts the focus on the first link of the row after or before the one that has it, or else of the first row. */
function focusRow(step: 1 | -1): void {
  const beside = (row: Element): Element | null =>
    step === 1 ? row.nextElementSibling : row.previousElementSibling;
  const row = document.activeElement?.closest("main [data-rows] tr") ?? null;
  let next = row === null ? document.querySelector("main [data-rows] tr") : beside(row);
  // The headings of groups have no link.
  while (next !== null && next.querySelector("a, button") === null) next = beside(next);
  next?.querySelector<HTMLElement>("a, button")?.focus();
}
