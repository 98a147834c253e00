import { type ReactElement, type ReactNode, useMemo } from "react";
import { LongTable } from "./long-table.tsx";

export interface Column<Row> {
  readonly id: string;
  readonly title: string;
  /** What rows are sorted by; absent: they cannot be sorted by it. Rows without a value come last. */
  readonly value?: (row: Row) => string | number | undefined;
  readonly cell: (row: Row) => ReactNode;
  readonly align?: "right";
  /** Classes of all its cells: its width, and where it is hidden. A column without a width takes what is left. */
  readonly className?: string;
}

/** The id of a column; with `-` in front: from high to low. */
export type Sort = string;

/** A table that can be sorted, and may have any number of rows. */
export function DataTable<Row>({
  label,
  rows,
  columns,
  rowKey,
  sort,
  onSort,
}: {
  /** What it is a table of. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly rowKey: (row: Row) => string;
  /** Absent: in the order of `rows`. */
  readonly sort?: Sort | undefined;
  readonly onSort?: (sort: Sort) => void;
}): ReactElement {
  const ordered = useMemo(() => sorted(rows, columns, sort), [rows, columns, sort]);
  return (
    <LongTable
      label={label}
      className="table-fixed"
      columns={columns.length}
      rows={ordered}
      head={columns.map((column) => (
        <HeaderCell key={column.id} column={column} sort={sort} onSort={onSort} />
      ))}
      renderRow={(row, attributes) => (
        <tr key={rowKey(row)} {...attributes} className="hover:bg-raised group">
          {columns.map((column) => (
            <td
              key={column.id}
              className={`border-line truncate border-b px-2 group-last:border-b-0 ${alignment(column)} ${column.className ?? ""}`}
            >
              {column.cell(row)}
            </td>
          ))}
        </tr>
      )}
    />
  );
}

function HeaderCell<Row>({
  column,
  sort,
  onSort,
}: {
  readonly column: Column<Row>;
  readonly sort: Sort | undefined;
  readonly onSort: ((sort: Sort) => void) | undefined;
}): ReactElement {
  const { id, title, value } = column;
  const direction = sort === id ? "ascending" : sort === `-${id}` ? "descending" : undefined;
  const style = `border-line bg-surface sticky top-0 z-10 border-b px-2 py-1.5 text-xs font-medium ${alignment(column)} ${column.className ?? ""}`;
  if (value === undefined || onSort === undefined)
    return (
      <th scope="col" className={`text-muted truncate ${style}`}>
        {title}
      </th>
    );
  return (
    <th scope="col" aria-sort={direction} className={style}>
      <button
        type="button"
        className={`hover:text-ink max-w-full truncate ${direction === undefined ? "text-muted" : "text-ink"}`}
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
