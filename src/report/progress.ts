import { isJsonObject } from "../base/json.ts";
import type { Plan, Trial } from "../model/plan.ts";
import type { ReporterOutput } from "./reporter.ts";
import type { TrialResult } from "../model/result.ts";
import { countOf, formatInteger, withoutCommands, clipText } from "../base/visible-text.ts";
import type { Phase, TraceEvent } from "../model/event.ts";
import { cutToWidth, displayWidth, type Piece, type Style } from "../base/columns.ts";
import { countPieces } from "./text.ts";
import { formatElapsed } from "../base/duration.ts";

const maxShownTrials = 4;
const spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
const spinnerMs = 100;
const redrawMs = 100;
/** Finished lines that may wait for the next redraw. */
const maxPending = 500;
const activities: Readonly<Record<Phase, string>> = {
  workspace: "making the workspace",
  servers: "starting servers",
  probe: "probing",
  setup: "setting up",
  agent: "agent",
  verify: "checking",
  cleanup: "cleaning up",
  stop: "stopping",
};

/** What a trial does while it waits for its turn among the requests to a model. */
const throttled = "waiting for the model's rate limit";

/**
 * What runs right now, redrawn in place at the bottom of a terminal: the first few trials, a count and the time. Finished
 * lines are printed above it.
 */
export class Progress {
  readonly #output: ReporterOutput;
  readonly #style: Style;
  readonly #total: number;
  readonly #startedAt: number;
  readonly #nameOf: (trial: Trial) => string;
  readonly #running = new Map<string, { readonly name: string; readonly since: number; activity: string }>();
  readonly #counts = { pass: 0, fail: 0, error: 0, timeout: 0, skip: 0 };
  readonly #stopTimer: () => void;
  readonly #stopNotices: (() => void) | undefined;
  #pending: string[] = [];
  /** Widths of the lines on the screen, and their text. */
  #drawn: number[] = [];
  #last = "";
  #stopped = false;

  constructor(output: ReporterOutput, style: Style, plan: Plan, nameOf: (trial: Trial) => string) {
    this.#output = output;
    this.#style = style;
    this.#total = plan.trials.length;
    this.#startedAt = output.now();
    this.#nameOf = nameOf;
    this.#stopTimer = output.every(redrawMs, () => this.#draw());
    // A notice is shown at once: the run may end before the next redraw.
    this.#stopNotices = output.notices?.((text) => {
      if (text === undefined) return this.#erase();
      this.#pending.push(...text.trim().split("\n"));
      this.#draw();
    });
  }

  trialStarted(trial: Trial): void {
    this.#running.set(trial.id, { name: this.#nameOf(trial), since: this.#output.now(), activity: "" });
  }

  /** Notes what a trial does; keeps nothing of the event. */
  event(event: TraceEvent): void {
    const running = this.#running.get(event.trial);
    if (running === undefined) return;
    if (event.type === "phase.started") running.activity = activities[event.phase];
    if (event.type === "probe.started") running.activity = event.probe;
    if (event.type === "model.waiting") running.activity = throttled;
    if (event.type === "model.called" && running.activity === throttled)
      running.activity = activities[event.purpose === "judge" ? "verify" : "agent"];
    // A call shows its tool.
    if (event.type === "step.started" && event.stepType !== "mcp")
      running.activity = `${activities[event.phase]}: ${clipText(event.name ?? event.step, 40)}`;
    if (event.type !== "mcp.message" || !isJsonObject(event.message)) return;
    const { method, params } = event.message;
    const tool = method === "tools/call" && isJsonObject(params) ? params["name"] : undefined;
    if (typeof tool === "string") running.activity = clipText(tool, 40);
  }

  /** Counts a finished trial and prints its lines, at the latest with the next redraw. */
  trialEnded(result: TrialResult, lines: readonly string[]): void {
    this.#running.delete(result.id);
    this.#counts[result.verdict] += 1;
    this.#pending.push(...lines);
    if (this.#pending.length >= maxPending) this.#draw();
  }

  /** Prints what waits, and erases the progress. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#stopTimer();
    this.#stopNotices?.();
    const text = this.#erasure() + this.#takePending();
    if (text !== "") this.#output.write(text);
  }

  #content(): Piece[][] {
    const now = this.#output.now();
    const done = Object.values(this.#counts).reduce((sum, count) => sum + count, 0);
    const frame = spinner[Math.floor(now / spinnerMs) % spinner.length] ?? "";
    const shown: Piece[][] = [];
    for (const { name, since, activity } of this.#running.values()) {
      if (shown.length === maxShownTrials) break;
      const tail = `${activity === "" ? "" : `  ${activity}`}  ${formatElapsed(now - since)}`;
      const room = Math.max(12, this.#output.columns() - 5 - tail.length);
      shown.push([{ text: `  ${frame} ` }, { text: cutToWidth(name, room) }, { text: tail, tone: "dim" }]);
    }
    const hidden = this.#running.size - shown.length;
    if (hidden > 0) shown.push([{ text: `    and ${formatInteger(hidden)} more`, tone: "dim" }]);
    const status: Piece[] = [
      { text: `  ${formatInteger(done)} of ${countOf(this.#total, "trial")}`, tone: "strong" },
      ...countPieces(this.#counts).flatMap((piece): Piece[] => [{ text: " · ", tone: "dim" }, piece]),
      { text: ` · ${formatElapsed(now - this.#startedAt)}`, tone: "dim" },
    ];
    return [...(done > 0 ? [[{ text: "" }]] : []), ...shown, status];
  }

  #erase(): void {
    const text = this.#erasure();
    if (text !== "") this.#output.write(text);
    this.#drawn = [];
    this.#last = "";
  }

  #draw(): void {
    if (this.#stopped) return;
    const lines = this.#content().map((pieces) => this.#paint(pieces));
    const text = lines.map((line) => `${line.painted}\n`).join("");
    if (this.#pending.length === 0 && text === this.#last) return;
    const erasure = this.#erasure();
    this.#last = text;
    this.#drawn = lines.map((line) => line.width);
    this.#output.write(erasure + this.#takePending() + text);
  }

  /** Pieces in one line, cut to the width of the terminal. */
  #paint(pieces: readonly Piece[]): { readonly painted: string; readonly width: number } {
    let width = 0;
    let painted = "";
    for (const { text, tone } of pieces) {
      const cut = cutToWidth(text, this.#output.columns() - 1 - width);
      width += displayWidth(cut);
      painted += this.#style[tone ?? "plain"](cut);
      if (cut !== text) break;
    }
    return { painted, width };
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
