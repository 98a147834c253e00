import { isJsonObject } from "../../core/formats/json.ts";
import type { Plan, Trial } from "../../core/plan/plan.ts";
import type { ReporterOutput } from "../../core/report/reporter.ts";
import type { TrialResult } from "../../core/report/result.ts";
import type { Phase, TraceEvent } from "../../core/trace/events.ts";
import { clipText } from "../format/clip.ts";
import { cutToWidth, type Piece, type Style } from "../format/rows.ts";
import { countOf, formatElapsed, formatInteger } from "../format/numbers.ts";
import { LiveRegion } from "./live-region.ts";
import { countPieces } from "./counts.ts";

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
