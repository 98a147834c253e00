import { type ReactElement, type ReactNode, useMemo } from "react";
import { LongTable } from "./long-table.tsx";

export interface Column<Row> {
  readonly id: string;
  readonly title: string;
  /** What rows are sorted by; absent: they cannot be sorted by it. Rows without a value come last. */
  readonly value?: (row: Row) => string | number | undefined;
  readonly cell: (row: Row) => ReactNode;
  readonly align?: "right";
  /** In rem. A column without a width takes what is left, and as much as makes a name readable. */
  readonly width?: number;
}

/** A column of numbers, which it can be sorted by. */
export function numberColumn<Row>({
  value,
  as: Show,
  width = 5,
  ...column
}: Pick<Column<Row>, "id" | "title" | "width"> & {
  readonly value: (row: Row) => number | undefined;
  /** Shows a number. */
  readonly as: (props: { readonly value: number | undefined }) => ReactNode;
}): Column<Row> {
  return { ...column, value, width, align: "right", cell: (row) => <Show value={value(row)} /> };
}

/** The id of a column; with `-` in front: from high to low. */
export type Sort = string;

/** In rem: the least width of a column that has none. */
const leastWidth = 10;

/**
 * A table that can be sorted, and may have any number of rows. Where it is wider than the page, it scrolls to the side; its
 * first column names the rows, and stays.
 */
export function DataTable<Row>({
  label,
  rows,
  columns,
  rowKey,
  sort,
  onSort,
  groupOf,
  total,
}: {
  /** What it is a table of. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly rowKey: (row: Row) => string;
  /** Absent: in the order of `rows`. */
  readonly sort?: Sort | undefined;
  readonly onSort?: (sort: Sort) => void;
  /** The group of a row; rows of one group follow each other. Each group has a heading. Absent: there are none. */
  readonly groupOf?: ((row: Row) => RowGroup) | undefined;
  /** A row about all of them, which stays at the end. */
  readonly total?: Row | undefined;
}): ReactElement {
  const ordered = useMemo(() => sorted(rows, columns, sort), [rows, columns, sort]);
  const lines = useMemo(() => linesOf(ordered, groupOf), [ordered, groupOf]);
  return (
    <LongTable
      label={label}
      className="table-fixed"
      width={columns.reduce((sum, { width = leastWidth }) => sum + width, 0)}
      columns={columns.length}
      rows={lines}
      head={columns.map((column, index) => (
        <HeaderCell key={column.id} column={column} isFirst={index === 0} sort={sort} onSort={onSort} />
      ))}
      foot={total === undefined ? undefined : cells(total, columns, "bg-raised sticky bottom-0 font-medium")}
      renderRow={(line, attributes) =>
        "group" in line ? (
          <tr key={line.group.key} {...attributes}>
            <th
              scope="colgroup"
              colSpan={columns.length}
              className="border-line bg-raised border-b px-2 text-left font-normal"
            >
              {/* In sight while the table is scrolled to the side. */}
              <div className="sticky left-2 w-[min(100%,calc(100vw-4rem))]">{line.group.heading}</div>
            </th>
          </tr>
        ) : (
          <tr key={rowKey(line.row)} {...attributes} className="hover:bg-raised group">
            {cells(line.row, columns, rowStyle)}
          </tr>
        )
      }
    />
  );
}

/** Rows that belong together. */
export interface RowGroup {
  readonly key: string;
  readonly heading: ReactNode;
}

type Line<Row> = { readonly row: Row } | { readonly group: RowGroup };

function linesOf<Row>(
  rows: readonly Row[],
  groupOf: ((row: Row) => RowGroup) | undefined,
): readonly Line<Row>[] {
  if (groupOf === undefined) return rows.map((row) => ({ row }));
  let last: string | undefined;
  return rows.flatMap((row): readonly Line<Row>[] => {
    const group = groupOf(row);
    const isNew = group.key !== last;
    last = group.key;
    return isNew ? [{ group }, { row }] : [{ row }];
  });
}

/** Of what stays at the side while a table is scrolled. */
export const rowHeader = "row-header group-hover:bg-raised";

const rowStyle = "border-line border-b font-normal group-last:border-b-0";

/** The cells of a row; the first names it. */
function cells<Row>(row: Row, columns: readonly Column<Row>[], style: string): ReactNode {
  return columns.map((column, index) => {
    const className = `truncate px-2 ${style} ${alignment(column)}`;
    return index === 0 ? (
      <th key={column.id} scope="row" className={`${rowHeader} ${className}`}>
        {column.cell(row)}
      </th>
    ) : (
      <td key={column.id} className={className}>
        {column.cell(row)}
      </td>
    );
  });
}

function HeaderCell<Row>({
  column: { id, title, value, width, ...column },
  isFirst,
  sort,
  onSort,
}: {
  readonly column: Column<Row>;
  readonly isFirst: boolean;
  readonly sort: Sort | undefined;
  readonly onSort: ((sort: Sort) => void) | undefined;
}): ReactElement {
  const direction = sort === id ? "ascending" : sort === `-${id}` ? "descending" : undefined;
  const attributes = {
    scope: "col",
    style: width === undefined ? {} : { width: `${width}rem` },
    className: `border-line bg-surface sticky top-0 truncate border-b px-2 py-1.5 text-xs font-medium ${
      isFirst ? "left-0 z-20" : "z-10"
    } ${direction === undefined ? "text-muted" : "text-ink"} ${alignment(column)}`,
  };
  if (value === undefined || onSort === undefined) return <th {...attributes}>{title}</th>;
  return (
    <th {...attributes} aria-sort={direction}>
      <button
        type="button"
        className="hover:text-ink max-w-full truncate"
        onClick={() => onSort(direction === "ascending" ? `-${id}` : id)}
      >
        {title}
        {direction !== undefined && <span aria-hidden="true">{direction === "ascending" ? " ↑" : " ↓"}</span>}
      </button>
    </th>
  );
}

function alignment({ align }: { readonly align?: "right" }): string {
  return align === "right" ? "text-right" : "text-left";
}

function sorted<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  sort: Sort | undefined,
): readonly Row[] {
  const isDescending = sort?.startsWith("-") === true;
  const valueOf = columns.find(({ id }) => id === (isDescending ? sort?.slice(1) : sort))?.value;
  if (valueOf === undefined) return rows;
  return rows
    .map((row) => ({ row, value: valueOf(row) }))
    .sort(({ value: a }, { value: b }) => {
      if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
      return isDescending ? compare(b, a) : compare(a, b);
    })
    .map(({ row }) => row);
}

const collator = new Intl.Collator("en", { numeric: true });

function compare(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));
}
