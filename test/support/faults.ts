import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { replayRun } from "../../src/report/replay.ts";
import { exitCode } from "../../src/report/result.ts";
import type { RunResult } from "../../src/model/result.ts";
import { procLister } from "../../src/process/process-tree.ts";
import { runMarkerName } from "../../src/process/watchdog.ts";
import { readRun } from "../../src/store/run-folder.ts";
import { type CliOutcome, folderOf, root, runHere, type RunningCli, startCli } from "./cli.ts";

/** Writes the peak memory of the CLI, in kilobytes, to the file named by PEAK_FILE. */
const peakMemory = join(root, "test/fixtures/peak-memory.mjs");

export interface FaultOptions {
  /** Default: `run`. */
  readonly command?: "run" | "check";
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Further files of the folder. */
  readonly files?: Readonly<Record<string, unknown>>;
}

/** A run of the built CLI in a folder of its own: JSON on stdout, the console report in the file `console.txt`. */
export interface FaultyRun extends Disposable {
  readonly folder: string;
  readonly cli: RunningCli;
  /** Resolves once the journal on disk matches. */
  untilJournal(pattern: RegExp): Promise<void>;
  journal(): string;
  /** Command lines of the processes that the CLI has started and that live. Linux only. */
  living(): string[];
  ended(): Promise<Ended>;
}

/** How it ended. */
export interface Ended extends CliOutcome {
  readonly result: RunResult;
  readonly console: string;
  /** Peak memory of the CLI in MB. */
  readonly peak: number;
  /** What lived when the CLI had ended. */
  readonly left: readonly string[];
}

/** Starts `mcpvals run`, or another command, on a config. */
export function startRun(
  config: Config,
  { command = "run", args = [], env = {}, files = {} }: FaultOptions = {},
): FaultyRun {
  const folder = folderOf({ ...files, "mcp-eval.config.json": config });
  const { path } = folder;
  const reporters = ["--reporter", "json", "--reporter", "console=console.txt"];
  const cli = startCli([command, ...reporters, ...args], {
    cwd: path,
    env: { NODE_OPTIONS: `--import=${peakMemory}`, PEAK_FILE: join(path, "peak.txt"), ...env },
  });
  const journal = (): string => journalOf(path);
  const living = (): string[] => livingOf(path);
  return {
    folder: path,
    cli,
    journal,
    living,
    untilJournal: (pattern) => until(() => pattern.test(journal()), `${String(pattern)} in the journal`),
    async ended() {
      const outcome = await cli.finished;
      const left = living();
      return {
        ...outcome,
        left,
        result: parseResult(outcome),
        console: readIfThere(join(path, "console.txt")),
        peak: Number(readIfThere(join(path, "peak.txt"))) / 1024,
      };
    },
    [Symbol.dispose]: () => {
      if (cli.child.exitCode === null && cli.child.signalCode === null) cli.child.kill("SIGKILL");
      folder[Symbol.dispose]();
    },
  };
}

/**
 * Runs a config to its end and checks what holds whatever went wrong: nothing of the servers is left, and the run's
 * folder, whose every line has to match its checksum, tells the same result again.
 */
export async function runFaulty(config: Config, options: FaultOptions = {}): Promise<Ended> {
  using run = startRun(config, options);
  const ended = await run.ended();
  expect(ended.left).toEqual([]);
  const shown = await runHere(["show", "latest", "--json"], { cwd: run.folder });
  expect(shown).toMatchObject({ code: exitCode(ended.result.verdict), stderr: "" });
  expect(JSON.parse(shown.stdout)).toEqual(ended.result);
  return ended;
}

/** Reads the run's folder back, as `mcpvals show` does, and compares. */
export async function expectSameWhenRead(folder: string, result: RunResult): Promise<void> {
  const stored = await readRun(runsOf(folder), "latest");
  expect(stored.torn).toBe(false);
  expect(replayRun(stored).result).toEqual(result);
}

/** Polls until something holds, for at most a minute. */
export async function until(holds: () => boolean, what: string): Promise<void> {
  const ms = 60_000;
  const end = performance.now() + ms;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The folder of the runs below a working folder. */
export function runsOf(folder: string): string {
  return join(folder, ".mcpvals/runs");
}

/** The text of the only run's journal; empty as long as there is none. */
function journalOf(folder: string): string {
  try {
    const [id] = readdirSync(runsOf(folder));
    return id === undefined ? "" : readIfThere(join(runsOf(folder), id, "journal.jsonl"));
  } catch {
    return "";
  }
}

/** Servers inherit HOME, which is the run's folder. */
function livingOf(folder: string): string[] {
  return procLister
    .listNow()
    .filter(({ pid }) => procLister.carries(pid, `HOME=${folder}`) && isServer(pid))
    .map(({ pid }) => readIfThere(`/proc/${pid}/cmdline`).replaceAll("\0", " "));
}

function isServer(pid: number): boolean {
  return readIfThere(`/proc/${pid}/environ`).includes(`\0${runMarkerName}=`);
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function parseResult({ stdout, stderr, code }: CliOutcome): RunResult {
  try {
    return JSON.parse(stdout) as RunResult;
  } catch (cause) {
    throw new Error(`stdout is not JSON (exit ${code}):\n${stdout}\n${stderr}`, { cause });
  }
}
