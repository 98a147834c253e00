import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Emit, EventBody, TraceEvent } from "../../src/model/event.ts";
import type { RunResult } from "../../src/model/result.ts";
import { misfitIn, misfitOf } from "../../src/store/misfits.ts";

/** Keeps what is emitted. Throws for an event that the journal would not hold as the schema of its type says. */
export function keepIn(events: EventBody[]): Emit {
  return (event) => {
    const written = JSON.stringify({ ...event, seq: events.length + 1, at: 0, trial: "t" });
    const misfit = misfitOf([JSON.parse(written) as TraceEvent]);
    if (misfit !== undefined) throw misfit;
    return events.push(event);
  };
}

/** The folders of the runs that are recorded below a working folder. */
export function runsBelow(cwd: string): readonly string[] {
  const runs = join(cwd, ".mcpvals/runs");
  return existsSync(runs) ? readdirSync(runs).map((name) => join(runs, name)) : [];
}

/** The newest of them: its result, and its events, none of which has an attachment. */
export function lastRunBelow(cwd: string): {
  readonly result: RunResult;
  readonly events: readonly TraceEvent[];
} {
  const folder = runsBelow(cwd).toSorted().at(-1) ?? "";
  const lines = readFileSync(join(folder, "journal.jsonl"), "utf8").trim().split("\n");
  return {
    result: JSON.parse(readFileSync(join(folder, "result.json"), "utf8")) as RunResult,
    events: lines.map((line) => (JSON.parse(line) as { readonly event: TraceEvent }).event),
  };
}

/** Throws when a run besides the earlier ones is not recorded as the schemas say. */
export async function expectRecords(cwd: string, earlier: readonly string[]): Promise<void> {
  for (const folder of runsBelow(cwd)) {
    // A process that was killed may not have written more.
    const isRun = ["plan.json", "journal.jsonl"].every((name) => existsSync(join(folder, name)));
    if (!isRun || earlier.includes(folder)) continue;
    const misfit = await misfitIn(folder);
    if (misfit !== undefined) throw misfit;
  }
}
