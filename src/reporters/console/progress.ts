import { isJsonObject } from "../../core/formats/json.ts";
import type { Plan, Trial } from "../../core/plan/plan.ts";
import type { ReporterOutput } from "../../core/report/reporter.ts";
import type { RunSummary, TrialResult } from "../../core/report/result.ts";
import { withoutCommands } from "../../core/text/visible-text.ts";
import type { Phase, TraceEvent } from "../../core/trace/events.ts";
import {
  formatInteger,
  clipText,
  countOf,
  cutToWidth,
  displayWidth,
  formatElapsed,
  type Piece,
  type Style,
} from "../format/text.ts";

const shownTrials = 4;
const spinner = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"] as const;
const spinnerMs = 100;
const doing: Readonly<Record<Phase, string>> = {
  workspace: "making the workspace",
  servers: "starting servers",
  probe: "looking at the state",
  setup: "setting up",
  agent: "agent",
  verify: "checking",
  cleanup: "cleaning up",
  stop: "stopping",
};

interface Running {
  readonly name: string;
  readonly since: number;
  /** What it does just now. */
  activity: string;
}

/** What runs right now, at the bottom of a terminal: the first few trials, a count and the time. */
export class Progress {
  readonly #output: ReporterOutput;
  readonly #total: number;
  readonly #startedAt: number;
  readonly #running = new Map<string, Running>();
  readonly #counts = { pass: 0, fail: 0, error: 0, timeout: 0, skip: 0 };
  readonly #nameOf: (trial: Trial) => string;
  readonly #region: LiveRegion;

  constructor(output: ReporterOutput, style: Style, plan: Plan, nameOf: (trial: Trial) => string) {
    this.#output = output;
    this.#total = plan.trials.length;
    this.#startedAt = output.now();
    this.#nameOf = nameOf;
    this.#region = new LiveRegion(output, style, () => this.#content());
  }

  trialStarted(trial: Trial): void {
    this.#running.set(trial.id, { name: this.#nameOf(trial), since: this.#output.now(), activity: "" });
  }

  /** Notes what a trial does; keeps nothing of the event. */
  event(event: TraceEvent): void {
    if (event.type !== "phase.started" && event.type !== "mcp.message" && event.type !== "step.started")
      return;
    const running = this.#running.get(event.trial);
    if (running === undefined) return;
    if (event.type === "phase.started") running.activity = doing[event.phase];
    else if (event.type === "step.started") {
      // A call shows its tool.
      if (event.stepType !== "mcp")
        running.activity = `${doing[event.phase]}: ${clipText(event.name ?? event.step, 40)}`;
    } else if (isJsonObject(event.message) && event.message["method"] === "tools/call") {
      const { params } = event.message;
      const tool = isJsonObject(params) ? params["name"] : undefined;
      if (typeof tool === "string") running.activity = clipText(tool, 40);
    }
  }

  /** Counts a finished trial and prints its lines. */
  trialEnded(result: TrialResult, lines: readonly string[]): void {
    this.#running.delete(result.id);
    this.#counts[result.verdict] += 1;
    this.#region.print(lines);
  }

  /** Erases the progress; what was printed stays. */
  stop(): void {
    this.#region.stop();
  }

  #content(): Piece[][] {
    const now = this.#output.now();
    const frame = spinner[Math.floor(now / spinnerMs) % spinner.length] ?? "";
    const shown = [...take(this.#running.values(), shownTrials)].map((running) =>
      this.#runningLine(running, frame, now),
    );
    const hidden = this.#running.size - shown.length;
    const more: Piece[][] =
      hidden > 0 ? [[{ text: `    and ${formatInteger(hidden)} more`, tone: "dim" }]] : [];
    return [...(this.#done() > 0 ? [[{ text: "" }]] : []), ...shown, ...more, this.#statusLine(now)];
  }

  #done(): number {
    return Object.values(this.#counts).reduce((sum, count) => sum + count, 0);
  }

  #runningLine({ name, since, activity }: Running, frame: string, now: number): Piece[] {
    const tail = `${activity === "" ? "" : `  ${activity}`}  ${formatElapsed(now - since)}`;
    const room = Math.max(12, this.#output.columns() - 5 - tail.length);
    return [{ text: `  ${frame} ` }, { text: cutToWidth(name, room) }, { text: tail, tone: "dim" }];
  }

  #statusLine(now: number): Piece[] {
    const elapsed = formatElapsed(now - this.#startedAt);
    return [
      { text: `  ${formatInteger(this.#done())} of ${countOf(this.#total, "trial")}`, tone: "strong" },
      ...countPieces(this.#counts).flatMap((piece): Piece[] => [{ text: " · ", tone: "dim" }, piece]),
      { text: ` · ${elapsed}`, tone: "dim" },
    ];
  }
}

function* take<T>(items: Iterable<T>, count: number): Generator<T> {
  let left = count;
  for (const item of items) {
    if (left-- <= 0) return;
    yield item;
  }
}

const redrawMs = 100;
/** Finished lines that may wait for the next redraw. */
const maxPending = 500;

/** A few lines at the bottom of a terminal that are redrawn in place, with finished lines printed above them. */
export class LiveRegion {
  readonly #output: ReporterOutput;
  readonly #style: Style;
  readonly #content: () => readonly (readonly Piece[])[];
  readonly #stopTimer: () => void;
  readonly #stopNotices: (() => void) | undefined;
  #pending: string[] = [];
  /** Widths of the lines on the screen. */
  #drawn: number[] = [];
  #last = "";
  #stopped = false;

  /** Starts drawing what `content` gives, line by line, cut to the width of the terminal. */
  constructor(output: ReporterOutput, style: Style, content: () => readonly (readonly Piece[])[]) {
    this.#output = output;
    this.#style = style;
    this.#content = content;
    this.#stopTimer = output.every(redrawMs, () => this.#draw());
    this.#stopNotices = output.notices?.((text) => this.#notice(text));
  }

  /** Prints lines above the region, at the latest with the next redraw. */
  print(lines: readonly string[]): void {
    for (const line of lines) this.#pending.push(line);
    if (this.#pending.length >= maxPending) this.#draw();
  }

  /** Prints what waits, erases the region and ends. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#stopTimer();
    this.#stopNotices?.();
    const text = this.#erasure() + this.#takePending();
    this.#drawn = [];
    if (text !== "") this.#output.write(text);
  }

  /** Shows a notice at once: nobody knows whether there will be a next redraw. */
  #notice(text: string): void {
    for (const line of text.trim().split("\n")) this.#pending.push(line);
    this.#draw();
  }

  #draw(): void {
    if (this.#stopped) return;
    const width = this.#output.columns() - 1;
    const lines = this.#content().map((pieces) => paintCut(pieces, width, this.#style));
    const text = lines.map((line) => `${line.painted}\n`).join("");
    if (this.#pending.length === 0 && text === this.#last) return;
    const erasure = this.#erasure();
    this.#last = text;
    this.#drawn = lines.map((line) => line.width);
    this.#output.write(erasure + this.#takePending() + text);
  }

  #takePending(): string {
    const text = withoutCommands(this.#pending.map((line) => `${line}\n`).join(""));
    this.#pending = [];
    return text;
  }

  /** Goes up over what was drawn and clears it; a terminal made narrower since has wrapped those lines. */
  #erasure(): string {
    const columns = Math.max(1, this.#output.columns());
    const rows = this.#drawn.reduce((sum, width) => sum + Math.max(1, Math.ceil(width / columns)), 0);
    return rows === 0 ? "" : `\u001b[${rows}A\r\u001b[J`;
  }
}

function paintCut(
  pieces: readonly Piece[],
  width: number,
  style: Style,
): { readonly painted: string; readonly width: number } {
  let used = 0;
  let painted = "";
  for (const { text, tone } of pieces) {
    const cut = cutToWidth(text, width - used);
    used += displayWidth(cut);
    painted += style[tone ?? "plain"](cut);
    if (cut !== text) break;
  }
  return { painted, width: used };
}

/** The counts that are not zero, in words: `4 passed`, `1 failed`. */
export function countPieces(summary: Omit<RunSummary, "total">): Piece[] {
  const { pass, fail, error, timeout, skip } = summary;
  return [
    ...(pass > 0 ? [{ text: `${formatInteger(pass)} passed`, tone: "good" } as const] : []),
    ...(fail > 0 ? [{ text: `${formatInteger(fail)} failed`, tone: "bad" } as const] : []),
    ...(error > 0 ? [{ text: countOf(error, "error"), tone: "warn" } as const] : []),
    ...(timeout > 0 ? [{ text: countOf(timeout, "timeout"), tone: "warn" } as const] : []),
    ...(skip > 0 ? [{ text: `${formatInteger(skip)} skipped`, tone: "dim" } as const] : []),
  ];
}
