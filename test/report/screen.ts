import { displayWidth } from "../../src/base/columns.ts";
import type { ReporterOutput } from "../../src/report/reporter.ts";

/** An output that keeps what is written; its clock and timer move only when told. */
export interface CapturedOutput extends ReporterOutput {
  readonly writes: string[];
  /** Everything written so far. */
  text(): string;
  /** Moves the clock on, firing the timer as often as it is due. */
  pass(ms: number): void;
  /** Fires every timer once while the clock stands still. */
  tick(): void;
  resize(columns: number): void;
  /** Number of timers that were not stopped. */
  timers(): number;
}

export interface CaptureOptions {
  readonly isTerminal?: boolean;
  readonly colors?: boolean;
  readonly columns?: number;
}

export function captureOutput(options: CaptureOptions = {}): CapturedOutput {
  const writes: string[] = [];
  const timers = new Set<{ readonly ms: number; due: number; readonly callback: () => void }>();
  let now = 1_000_000;
  let columns = options.columns ?? 80;
  return {
    writes,
    text: () => writes.join(""),
    write: (text) => void writes.push(text),
    isTerminal: options.isTerminal ?? false,
    colors: options.colors ?? false,
    columns: () => columns,
    now: () => now,
    every(ms, callback) {
      const timer = { ms, due: now + ms, callback };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    pass(ms) {
      const until = now + ms;
      for (;;) {
        const next = [...timers].filter((timer) => timer.due <= until).sort((a, b) => a.due - b.due)[0];
        if (next === undefined) break;
        now = next.due;
        next.due += next.ms;
        next.callback();
      }
      now = until;
    },
    tick: () => {
      for (const timer of timers) timer.callback();
    },
    resize: (wanted) => void (columns = wanted),
    timers: () => timers.size,
  };
}

/**
 * A terminal with endless height, as far as reporters use one: it knows printable text, line feeds, `CSI n A`, `CSI J`
 * and colours, and refuses everything else. Lines never wrap: a line that is too wide is an error.
 */
export class Screen {
  readonly #lines: string[] = [""];
  #row = 0;
  #column = 0;
  readonly #columns: () => number;

  constructor(columns: () => number) {
    this.#columns = columns;
  }

  write(text: string): this {
    // oxlint-disable-next-line no-control-regex
    for (const [token] of text.matchAll(/\u001b\[[\d;?]*[A-Za-z]|[\n\r]|[^\n\r\u001b]+|\u001b/gu)) {
      this.#apply(token);
    }
    return this;
  }

  /** What is on the screen, without blank lines at the end. */
  lines(): string[] {
    return this.#lines.join("\n").trimEnd().split("\n");
  }

  #apply(token: string): void {
    if (token === "\n") {
      this.#row += 1;
      this.#column = 0;
      this.#lines[this.#row] ??= "";
    } else if (token === "\r") this.#column = 0;
    else if (token.startsWith("\u001b")) this.#control(token.slice(1));
    else this.#print(token);
  }

  #control(code: string): void {
    const up = /^\[(\d+)A$/u.exec(code);
    if (up !== null) {
      this.#row -= Number(up[1]);
      if (this.#row < 0) throw new Error("the cursor left the screen at the top");
    } else if (code === "[J") {
      if (this.#column !== 0) throw new Error("erased from the middle of a line");
      this.#lines.splice(this.#row, Infinity, "");
    } else if (!/^\[[\d;]*m$/u.test(code)) throw new Error(`unexpected control sequence ${code}`);
  }

  #print(text: string): void {
    // oxlint-disable-next-line no-control-regex
    if (/[\u0000-\u001f\u007f-\u009f]/u.test(text)) throw new Error(`control character in ${text}`);
    const line = (this.#lines[this.#row] ?? "").slice(0, this.#column) + text;
    if (displayWidth(line) > this.#columns()) throw new Error(`too wide: ${line}`);
    this.#lines[this.#row] = line;
    this.#column = line.length;
  }
}
