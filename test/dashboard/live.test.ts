import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import {
  type RunsDocument,
  type RunUpdate,
  type TraceItem,
  type TrialRow,
  type TrialUpdate,
  packRows,
  unpackRows,
} from "../../src/report/documents/documents.ts";
import { runHere } from "../support/cli.ts";
import { startWaiting } from "./support.ts";

/** The rows of all trials, as someone knows them who has had these messages. */
function rowsOf(updates: readonly RunUpdate[]): readonly TrialRow[] {
  const rows = new Map<string, TrialRow>();
  for (const row of updates.flatMap(({ changed }) => unpackRows(changed))) rows.set(row.id, row);
  return [...rows.values()];
}

const statesOf = (updates: readonly RunUpdate[]) => rowsOf(updates).map(({ state }) => state);

it("tells of a run as it goes on, and of all that was when someone connects again", async () => {
  await using run = await startWaiting();
  const { dashboard, id } = run;
  const path = `runs/${id}/live`;
  const first = await dashboard.live<RunUpdate>(path, (updates) => statesOf(updates)[0] === "running");
  expect(rowsOf(first.slice(0, 1)).map(({ id: trial }) => trial)).toEqual(["t1", "t2", "t3"]);
  expect(first.at(-1)).toMatchObject({ state: "running", summary: { total: 3, pass: 0 } });
  expect(statesOf(first)).toEqual(["running", "waiting", "waiting"]);

  run.release("a");
  const second = await dashboard.live<RunUpdate>(path, (updates) => statesOf(updates)[1] === "running");
  expect(rowsOf(second)).toMatchObject([
    { state: "ended", verdict: "pass" },
    { state: "running" },
    { state: "waiting" },
  ]);
  expect(rowsOf(second.slice(0, 1))).toHaveLength(3);
  const { runs } = await dashboard.json<RunsDocument>("runs");
  expect(runs).toMatchObject([{ id, state: "running" }]);

  run.release("b");
  run.release("c");
  const last = await dashboard.live<RunUpdate>(path);
  const { trials, ...rest } = await dashboard.run(id);
  expect(rowsOf(last)).toEqual(trials);
  const { changed: _, ...told } = last.at(-1) ?? { changed: packRows([]) };
  expect(told).toEqual(rest);
  expect(rest).toMatchObject({ state: "ended", verdict: "pass" });
});

it("tells what a run with --until decided has found out so far", async () => {
  const until = ["--until", "decided", "--max-trials", "2", "--threshold", "passRate=0.5"];
  await using run = await startWaiting(until);
  const path = `runs/${run.id}/live`;
  const roundsIn = (updates: readonly RunUpdate[]) => updates.at(-1)?.decisions?.map(({ rounds }) => rounds);
  const first = await run.dashboard.live<RunUpdate>(path, (updates) => statesOf(updates)[0] === "running");
  expect(roundsIn(first)).toEqual([0]);
  run.release("a");
  await run.dashboard.live<RunUpdate>(path, (updates) => statesOf(updates)[1] === "running");
  // The second round waits.
  rmSync(join(run.path, "a.go"));
  for (const name of ["b", "c"]) run.release(name);
  const later = await run.dashboard.live<RunUpdate>(path, (updates) => statesOf(updates)[3] === "running");
  expect(roundsIn(later)).toEqual([1]);
  expect(later.at(-1)?.decisions?.[0]).toMatchObject({ verdict: "undecided", maxRounds: 2 });
});

it("tells of a trial as it goes on", async () => {
  await using run = await startWaiting();
  const { dashboard, id } = run;
  const path = `runs/${id}/trials/t1/live`;
  const isWaiting = (updates: readonly TrialUpdate[]): boolean =>
    updates.some(({ items }) => items.some(({ kind }) => kind === "step"));
  const first = await dashboard.live<TrialUpdate>(path, isWaiting);
  expect(first.at(-1)).not.toHaveProperty("result");
  for (const name of ["a", "b", "c"]) run.release(name);
  const updates = await dashboard.live<TrialUpdate>(path);
  const items = new Map<number, TraceItem>();
  for (const item of updates.flatMap((update) => update.items)) items.set(item.seq, item);
  const document = await dashboard.trial(id, "t1");
  expect([...items.values()].toSorted((a, b) => a.seq - b.seq)).toEqual(document.items);
  expect(updates.flatMap(({ events }) => events)).toEqual(document.events);
  expect(document.result?.verdict).toBe("pass");
});

it("loses nothing of a run that was killed", async () => {
  await using run = await startWaiting();
  const { dashboard, id } = run;
  const path = `runs/${id}/live`;
  run.release("a");
  await dashboard.live<RunUpdate>(path, (updates) => statesOf(updates)[1] === "running");
  const following = dashboard.live<RunUpdate>(path);
  run.cli.child.kill("SIGKILL");
  const told = await following;
  expect(told.at(-1)).toMatchObject({ state: "cut-off", verdict: "interrupted" });
  const document = await dashboard.run(id);
  expect(rowsOf(told)).toEqual(document.trials);
  expect(document.trials.map(({ state, verdict }) => [state, verdict])).toEqual([
    ["ended", "pass"],
    ["cut-off", "skip"],
    ["not-run", "skip"],
  ]);
  const trial = await dashboard.trial(id, "t2");
  expect(trial.items.some(({ kind }) => kind === "step")).toBe(true);
  expect(trial.result?.error?.code).toBe("run/interrupted");
  expect(trial.row.state).toBe("cut-off");
  const shown = (args: readonly string[]) => runHere(["show", "latest", ...args], { cwd: run.path });
  expect((await shown(["--trial", "t2"])).stdout).toContain("t2 b, attempt 1: cut off");
  expect((await shown(["--trial", "t3"])).stdout).toContain("t3 c, attempt 1: not run");
  expect((await shown([])).stdout).toContain("before 2 trials of 3 could finish: 1 cut off, 1 not run.");
});

it("ends the live view of a run that is removed", async () => {
  await using run = await startWaiting();
  const { dashboard, id } = run;
  const following = dashboard.live<RunUpdate>(`runs/${id}/live`);
  rmSync(join(run.path, ".mcpvals", "runs", id), { recursive: true });
  expect((await following).every(({ state }) => state === "running")).toBe(true);
  await expect(dashboard.json(`runs/${id}`)).rejects.toThrow("404");
});

it("ends a live view whose run or trial does not exist", async () => {
  await using run = await startWaiting();
  const { dashboard } = run;
  await expect(dashboard.json("runs/nothing/live")).rejects.toThrow("404");
  await expect(dashboard.json(`runs/${run.id}/trials/nothing/live`)).rejects.toThrow("404");
});
