import { type Stats, statSync } from "node:fs";
import { readdir, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Plan } from "../model/plan.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import { runVerdicts } from "../model/grade.ts";
import type { RunHead, RunResult, TrialResult } from "../model/result.ts";
import { codeOf, McpvalsError } from "../base/error.ts";
import { version } from "../base/version.ts";
import { parseStored } from "./journal.ts";
import { documentParts, readBeforeTrials, readDocument, unreadable } from "./run-folder.ts";

// What of a run folder can be read without reading all of it.

/** Folders between two looks at other work. */
const foldersAtOnce = 200;

/** Names of the run folders below a folder: those with a plan. None when the folder does not exist. */
export async function runFolders(runs: string): Promise<readonly string[]> {
  const begun: string[] = [];
  for (const [index, name] of (await namesIn(runs)).entries()) {
    if (isFile(join(runs, name, "plan.json"))) begun.push(name);
    if (index % foldersAtOnce === 0) await nextTurn();
  }
  return begun;
}

/** Whether a run folder of this name is below a folder. The name may come from anywhere: it is looked up before it is part of a path. */
export async function hasRunFolder(runs: string, name: string): Promise<boolean> {
  return (await namesIn(runs)).includes(name) && isFile(join(runs, name, "plan.json"));
}

function namesIn(runs: string): Promise<readonly string[]> {
  return readdir(runs).catch(() => []);
}

// Without waiting, which takes ten times as long: there may be ten thousand runs.
function isFile(path: string): boolean {
  return statsOf(path)?.isFile() === true;
}

function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Changes whenever a file of a run is written: sizes and times of change. */
export function runStamp(folder: string): string {
  const names = ["run.json", "plan.json", "result.json", "journal.jsonl"];
  const stamps = names.map((name) => {
    const stats = statsOf(join(folder, name));
    return stats === undefined ? "absent" : `${stats.size} ${stats.mtimeMs}`;
  });
  return stamps.join(", ");
}

/** What is known of a run since it began. Throws `store/corrupt`. */
export function readHead(folder: string): RunHead {
  return readDocument<RunHead>(folder, "run.json", ["id", "startedAt", "environment"]);
}

/** Throws `store/corrupt`. */
export function readPlan(folder: string): Plan {
  return readDocument<Plan>(folder, "plan.json", ["agents", "tasks", "trials"]);
}

/** Throws `store/corrupt`. */
export function readResult(folder: string): RunResult {
  return readDocument<RunResult>(folder, "result.json", ["verdict", "durationMs", "trials"]);
}

/** Pieces of a result between two looks at other work. */
const piecesAtOnce = 64;

/**
 * Reads the result of a run that has ended, and calls back with its trials, some at a time: all of them take several times the memory of
 * what is shown of them. Returns the result with an empty list of trials in their place. Throws `store/corrupt`.
 */
export async function readResultByTrial(
  folder: string,
  onTrials: (trials: readonly TrialResult[]) => void,
): Promise<RunResult> {
  const name = "result.json";
  try {
    let count = 0;
    let rest = "";
    for (const { part, bytes } of documentParts(folder, name)) {
      const text = bytes.toString("utf8");
      if (part !== "trials") rest += text;
      else {
        onTrials(parseStored(bytes, `[${text}]`) as readonly TrialResult[]);
        count += 1;
        if (count % piecesAtOnce === 0) await nextTurn();
      }
    }
    if (rest !== "") return parseStored(Buffer.from(rest), rest) as RunResult;
    const result = readResult(folder);
    onTrials(result.trials);
    return { ...result, trials: [] };
  } catch (cause) {
    throw unreadable(folder, name, cause);
  }
}

/** Size of a journal from which on the result of its run is read in its place, in bytes: it takes long to read. */
const largeJournal = 8 * 1024 * 1024;

/**
 * The result of a large run as it was written, as {@link readResultByTrial} gives it, where it is what the journal comes to: the journal was not changed since, and this version of
 * mcpvals wrote it. Else undefined: compute it from the journal, as for other runs. Throws `store/corrupt`.
 */
export async function readSettledResult(
  folder: string,
  onTrials: (trials: readonly TrialResult[]) => void,
): Promise<RunResult | undefined> {
  const [journal, result] = ["journal.jsonl", "result.json"].map((name) => statsOf(join(folder, name)));
  if (journal === undefined || result === undefined || journal.size < largeJournal) return undefined;
  if (journal.mtimeMs > result.mtimeMs || readHead(folder).environment.mcpvals !== version) return undefined;
  return readResultByTrial(folder, onTrials);
}

/** A plan without its trials. Throws `store/corrupt`. */
export function readPlanHead(folder: string): Omit<Plan, "trials"> {
  return readBeforeTrials<Plan>(folder, "plan.json") ?? readPlan(folder);
}

/** What a result says before its trials. Throws `store/corrupt`. */
export function readResultHead(
  folder: string,
): Pick<RunResult, "verdict" | "startedAt" | "durationMs" | "summary" | "passRate" | "gates"> {
  const head = readBeforeTrials<RunResult>(folder, "result.json") ?? readResult(folder);
  const { verdict, durationMs, summary } = head;
  const counts = (["total", "pass", "fail", "error", "timeout", "skip"] as const).map(
    (name) => summary?.[name],
  );
  if (runVerdicts.includes(verdict) && [durationMs, ...counts].every((each) => typeof each === "number"))
    return head;
  throw unreadable(folder, "result.json", new Error("it is not a document of a run"));
}

const pinFile = "pinned";

/** Whether a run is kept when old ones are deleted. */
export function isPinned(folder: string): boolean {
  return isFile(join(folder, pinFile));
}

/** Keeps a run when old ones are deleted, or no longer. Throws what the file system throws. */
export async function pinRun(folder: string, pinned: boolean): Promise<void> {
  if (pinned) await writeFile(join(folder, pinFile), "");
  else await rm(join(folder, pinFile), { force: true });
}

/** What can be told apart without reading: whether a run has ended, goes on, or was cut off. */
export type RunState = "running" | "ended" | "cut-off";

/** Whether a run has ended, by its result; else whether the process that executes it is alive. Throws `store/not-found` when it was removed. */
export function runState(folder: string, head: Pick<RunHead, "process">): RunState {
  if (hasResult(folder)) return "ended";
  if (!isFile(join(folder, "plan.json")))
    throw new McpvalsError("store/not-found", "the run was removed", {
      hint: "Go back to the list of runs.",
    });
  if (isAlive(head.process)) return "running";
  // It may have ended since.
  return hasResult(folder) ? "ended" : "cut-off";
}

function hasResult(folder: string): boolean {
  return isFile(join(folder, "result.json"));
}

/** Of another machine's process it is not known, so it counts as ended. */
export function isAlive(process_: RunHead["process"]): boolean {
  if (process_ === undefined || process_.host !== hostname()) return false;
  try {
    process.kill(process_.pid, 0);
    return true;
  } catch (error) {
    // It belongs to another user.
    return codeOf(error) === "EPERM";
  }
}
