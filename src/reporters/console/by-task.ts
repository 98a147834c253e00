import type { TrialResult } from "../../core/report/result.ts";
import { cutToWidth, displayWidth, padToWidth, type Page, type Tone } from "../format/rows.ts";
import { fullTitle, type Variety, varietyOf } from "../format/names.ts";
import { countOf, formatInteger } from "../format/numbers.ts";
import { visibleText } from "../../core/text/visible-text.ts";

const shownTasks = 30;
const maxTitleWidth = 50;
/** A wider table is hard to read also where lines have no end. */
const widestTable = 120;

interface Cell {
  passed: number;
  total: number;
  failed: number;
}

interface Row {
  readonly title: string;
  readonly cells: ReadonlyMap<string, Cell>;
}

type Table = Map<string, { readonly title: string; readonly cells: Map<string, Cell> }>;

/** How many attempts of each task passed, by agent and set of servers; nothing for a run of one of each and one attempt. */
export function byTaskLines(trials: readonly TrialResult[], page: Page): string[] {
  const variety = varietyOf(trials);
  if (!variety.agents && !variety.variants && !variety.attempts) return [];
  const { table, columns } = tabulate(trials, variety);
  const rows = [...table.values()];
  const mixed = rows.filter(({ cells }) => [...cells.values()].some((cell) => cell.passed < cell.total));
  const shown = rows.length <= shownTasks ? rows : mixed.slice(0, shownTasks);
  const layout = { columns, shown, page };
  return [
    ...(tableLines(layout) ?? listLines(layout)),
    ...restLines(rows.length, mixed.length, shown.length).map((line) => page.style.dim(line)),
  ];
}

interface Layout {
  readonly columns: readonly string[];
  readonly shown: readonly Row[];
  readonly page: Page;
}

/** A row a task; undefined where that is wider than the page. */
function tableLines({ columns, shown, page }: Layout): string[] | undefined {
  const { style, width } = page;
  const widest = widestOf(shown.map((row) => displayWidth(row.title)));
  const titleWidth = Math.min(maxTitleWidth, Math.max(7, widest));
  const widths = columns.map((name) =>
    Math.max(displayWidth(name), widestOf(shown.map(({ cells }) => cellText(cells.get(name)).length))),
  );
  const total = widths.reduce((sum, each) => sum + each + 2, titleWidth + 2);
  if (total > Math.min(width, widestTable) && columns.length > 1) return undefined;
  const headings = columns.map((name, index) => padToWidth(name, widths[index] ?? 0)).join("  ");
  return [
    `${style.strong(padToWidth("By task", titleWidth + 2))}  ${style.dim(headings.trimEnd())}`.trimEnd(),
    "",
    ...shown.map(({ title, cells }) => {
      const painted = columns.map((name, index) => {
        const cell = cells.get(name);
        return style[cellTone(cell)](padToWidth(cellText(cell), widths[index] ?? 0));
      });
      return `  ${padToWidth(cutToWidth(title, titleWidth), titleWidth)}  ${painted.join("  ")}`.trimEnd();
    }),
  ];
}

/** A call takes only so many arguments, so not all at once. */
function widestOf(widths: readonly number[]): number {
  return widths.reduce((widest, width) => Math.max(widest, width), 0);
}

/** A block a task, with a line for each column. */
function listLines({ columns, shown, page: { style, width } }: Layout): string[] {
  const nameWidth = Math.min(Math.max(20, width - 20), widestOf(columns.map(displayWidth)));
  const blocks = shown.flatMap(({ title, cells }) => [
    `  ${cutToWidth(title, width - 4)}`,
    ...columns.flatMap((name) => {
      const cell = cells.get(name);
      if (cell === undefined) return [];
      const padded = padToWidth(cutToWidth(name, nameWidth), nameWidth);
      return [`    ${style.dim(padded)}  ${style[cellTone(cell)](cellText(cell))}`];
    }),
  ]);
  return [style.strong("By task"), "", ...blocks];
}

function tabulate(
  trials: readonly TrialResult[],
  variety: Variety,
): { readonly table: Table; readonly columns: string[] } {
  const table: Table = new Map();
  const columns = new Set<string>();
  for (const trial of trials) {
    const column = columnOf(trial, variety);
    columns.add(column);
    const row = table.get(trial.task) ?? { title: fullTitle(trial), cells: new Map<string, Cell>() };
    table.set(trial.task, row);
    const cell = row.cells.get(column) ?? { passed: 0, total: 0, failed: 0 };
    row.cells.set(column, cell);
    cell.total += 1;
    if (trial.verdict === "pass") cell.passed += 1;
    if (trial.verdict === "fail") cell.failed += 1;
  }
  return { table, columns: [...columns] };
}

function columnOf({ agent, variant }: TrialResult, { agents }: Variety): string {
  const who = agent === null ? "no agent" : visibleText(agent);
  if (variant === undefined) return who;
  return agents || agent === null ? `${who} · ${visibleText(variant)}` : visibleText(variant);
}

function cellText(cell: Cell | undefined): string {
  if (cell === undefined) return "";
  const unjudged = cell.total - cell.passed - cell.failed;
  const note = unjudged === 0 ? "" : `, ${formatInteger(unjudged)} not judged`;
  return `${cell.passed}/${cell.total}${note}`;
}

function cellTone(cell: Cell | undefined): Tone {
  if (cell === undefined) return "dim";
  if (cell.failed > 0) return "bad";
  return cell.passed === cell.total ? "good" : "warn";
}

function restLines(all: number, mixed: number, shown: number): string[] {
  if (shown === all) return [];
  const hidden = mixed - shown;
  const passed = all - mixed;
  return [
    ...(hidden > 0 ? [`  and ${countOf(hidden, "more task")} with attempts that did not pass`] : []),
    ...(passed > 0 ? [`  and ${countOf(passed, "task")} of which every attempt passed`] : []),
  ];
}
