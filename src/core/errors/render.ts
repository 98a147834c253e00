import type { Diagnostic, McpvalsError } from "./error.ts";
import { quotedLines, visibleLines, visibleText } from "../text/visible-text.ts";
import { formatLocation } from "./format-location.ts";

export interface RenderOptions {
  /** Whether to use ANSI colours. */
  readonly colors?: boolean;
}

const mostShown = 100;

/**
 * Writes an error for people: where it is as `FILE:LINE:COLUMN`, what is wrong, the lines around it, what to do. An
 * error that stands for several problems of a file shows them all.
 */
export function renderError(error: McpvalsError, { colors = false }: RenderOptions = {}): string {
  const paint = colors ? ansi : plain;
  const diagnostics = error.details.diagnostics ?? [];
  if (diagnostics.length === 0)
    return renderOne({ code: error.code, message: error.message, ...error.details }, paint);
  const shown = diagnostics.slice(0, mostShown).map((diagnostic) => renderOne(diagnostic, paint));
  const more = diagnostics.length - shown.length;
  const total = diagnostics.length === 1 ? [] : [paint.bold(`${diagnostics.length} problems`)];
  return [...shown, ...(more > 0 ? [`… and ${more} more`] : []), ...total].join("\n\n");
}

interface Renderable extends Diagnostic {
  readonly detail?: string;
}

function renderOne(problem: Renderable, paint: Paint): string {
  const { code, message, location, hint, frame, detail } = problem;
  const where = location === undefined ? "" : `${paint.cyan(visibleText(formatLocation(location)))}: `;
  const [first = "", ...others] = withoutColors(withoutEnd(message)).split("\n");
  const head = `${where}${paint.red("error")} ${paint.bold(visibleText(first))} ${paint.dim(`(${code})`)}`;
  const lines = [
    ...(others.length === 0 ? [] : quotedLines(others.join("\n"))),
    ...(frame === undefined ? [] : visibleLines(frame)),
    ...(detail === undefined || detail === "" ? [] : quotedLines(withoutColors(detail.trimEnd()))),
    ...(hint === undefined ? [] : [`${paint.cyan("hint:")} ${visibleText(hint)}`]),
  ];
  return [head, ...lines.map((line) => `  ${line}`.trimEnd())].join("\n");
}

/** The code follows the message, so that one sentence has no full stop. */
function withoutEnd(message: string): string {
  return message.trimEnd().replace(/(?<!\.)\.$/, "");
}

/** Colours of what was copied from elsewhere say nothing where they are written out. */
function withoutColors(text: string): string {
  // eslint-disable-next-line no-control-regex -- these characters are what is looked for
  return text.replaceAll(/\u001b\[[0-?]*[ -/]*[@-~]/g, "");
}

interface Paint {
  readonly red: (text: string) => string;
  readonly cyan: (text: string) => string;
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
}

const same = (text: string): string => text;
const plain: Paint = { red: same, cyan: same, bold: same, dim: same };
const ansi: Paint = { red: wrap(31, 39), cyan: wrap(36, 39), bold: wrap(1, 22), dim: wrap(2, 22) };

function wrap(open: number, close: number): (text: string) => string {
  return (text) => `\u001b[${open}m${text}\u001b[${close}m`;
}
