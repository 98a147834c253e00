import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import type { RunResult } from "../../src/model/result.ts";
import { expectRecords, runsBelow } from "./records.ts";

/** The checkout. */
export const root: string = resolve(import.meta.dirname, "../..");
/** The built CLI, or another build of it. */
export const builtMain: string = process.env["MCPVALS_TEST_MAIN"] ?? join(root, "dist/main.js");

/** The folder with the programs of `programs.ts`; first on the PATH of all CLIs that tests start. */
export const programFolder: string = join(root, "node_modules/.cache/programs/bin");

/** The cache folder of all CLIs that tests start, so that the code is compiled once. */
const testCache: string = join(root, "node_modules/.cache");

function testPath(): string {
  return [programFolder, join(root, "node_modules/.bin"), process.env["PATH"] ?? ""].join(delimiter);
}

/** A folder with the given files, removed when disposed. Values that are not text are written as JSON. */
export function folderOf(files: Readonly<Record<string, unknown>>): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "mcpvals-test-"));
  for (const [name, content] of Object.entries(files)) {
    const file = join(path, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content, undefined, 2));
  }
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true, maxRetries: 3 }) };
}

export interface CliOptions {
  readonly cwd: string;
  /** Added to an otherwise empty environment of PATH and an empty HOME. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface StartOptions extends CliOptions {
  /** Runs it at a pseudo terminal, where each text is typed when the one before it has appeared; all output is then in stdout. */
  readonly typed?: readonly (readonly [awaited: string, text: string])[];
  /** The file that is run. Default: the built one. */
  readonly main?: string;
}

export interface CliOutcome {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly durationMs: number;
}

/** The built CLI at work. */
export interface RunningCli {
  readonly child: ChildProcess;
  readonly finished: Promise<CliOutcome>;
  /** What it has written so far. */
  output(): { readonly stdout: string; readonly stderr: string };
  /** Resolves once stdout or stderr matches; rejects when the process ends first. */
  until(pattern: RegExp): Promise<void>;
}

/** Starts the built CLI, in a process group of its own, with nothing in its environment but PATH, an empty HOME and a cache. */
export function startCli(
  args: readonly string[],
  { cwd, env = {}, typed, main = builtMain }: StartOptions,
): RunningCli {
  const started = performance.now();
  const line = [process.execPath, main, ...args];
  const terminal = ["python3", join(root, "test/fixtures/at-terminal.py"), JSON.stringify(typed)];
  const [command = "", ...rest] = typed === undefined ? line : [...terminal, ...line];
  const child = spawn(command, rest, {
    cwd,
    env: {
      PATH: testPath(),
      HOME: cwd,
      XDG_CACHE_HOME: testCache,
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let stdout = "";
  let stderr = "";
  const watchers = new Set<() => void>();
  const take = (add: (text: string) => void) => (chunk: Buffer) => {
    add(chunk.toString("utf8"));
    for (const watch of watchers) watch();
  };
  child.stdout.on(
    "data",
    take((text) => (stdout += text)),
  );
  child.stderr.on(
    "data",
    take((text) => (stderr += text)),
  );
  const finished = new Promise<CliOutcome>((done, fail) => {
    child.on("error", fail);
    child.on("close", (code, signal) =>
      done({ code, signal, stdout, stderr, durationMs: performance.now() - started }),
    );
  });
  return {
    child,
    finished,
    output: () => ({ stdout, stderr }),
    until: (pattern) =>
      new Promise((matched, fail) => {
        const watch = (): void => {
          if (!pattern.test(stdout) && !pattern.test(stderr)) return;
          watchers.delete(watch);
          matched();
        };
        watchers.add(watch);
        watch();
        void finished.then(() => fail(new Error(`ended before ${String(pattern)}:\n${stdout}\n${stderr}`)));
      }),
  };
}

/** Runs the built CLI to its end; a run that it records has to be as the schemas say. */
export async function runCli(args: readonly string[], options: StartOptions): Promise<CliOutcome> {
  const earlier = runsBelow(options.cwd);
  const outcome = await startCli(args, options).finished;
  await expectRecords(options.cwd, earlier);
  return outcome;
}

/** Runs a command line in a folder of the given files, in this process. */
export async function runIn(
  files: Readonly<Record<string, unknown>>,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<HereOutcome> {
  using folder = folderOf(files);
  return await runHere(args, { cwd: folder.path, env });
}

/** Runs `mcpvals run --reporter json` in a folder of the given files and reads the result document, in this process. */
export async function runInline(
  files: Readonly<Record<string, unknown>>,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<HereOutcome & { readonly result: RunResult }> {
  const outcome = await runIn(files, ["run", "--reporter", "json", ...args], env);
  try {
    return { ...outcome, result: JSON.parse(outcome.stdout) as RunResult };
  } catch (cause) {
    throw new Error(`stdout is not JSON (exit ${outcome.code}):\n${outcome.stdout}\n${outcome.stderr}`, {
      cause,
    });
  }
}

export type HereOutcome = Pick<CliOutcome, "code" | "stdout" | "stderr">;

/**
 * Runs a command line to its end as `runCli` does, with the same environment, but from the source and in this process, which
 * takes a fraction of the time. Signals, pipes, and runs beside one another need `runCli`.
 */
export function runHere(args: readonly string[], options: CliOptions): Promise<HereOutcome> {
  const outcome = running.then(() => runNow(args, options));
  running = outcome.catch(() => undefined);
  return outcome;
}

/** They share the folder, environment and output of this process, so they run one after the other. */
let running: Promise<unknown> = Promise.resolve();

async function runNow(args: readonly string[], { cwd, env = {} }: CliOptions): Promise<HereOutcome> {
  const { runProgram } = await import("../../src/cli/program.ts");
  const { env: ownEnv, stdout, stderr } = process;
  const before = { cwd: process.cwd(), out: stdout.write.bind(stdout), error: stderr.write.bind(stderr) };
  const listeners = process.listeners("uncaughtException");
  const written = { stdout: "", stderr: "" };
  const write = (name: "stdout" | "stderr"): typeof stdout.write => {
    return (chunk: string | Uint8Array, ...rest: readonly unknown[]) => {
      written[name] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
      const done = rest.at(-1);
      if (typeof done === "function") queueMicrotask(() => void done());
      return true;
    };
  };
  const earlier = runsBelow(cwd);
  try {
    process.chdir(cwd);
    process.env = {
      PATH: testPath(),
      HOME: cwd,
      XDG_CACHE_HOME: testCache,
      ...env,
    };
    stdout.write = write("stdout");
    stderr.write = write("stderr");
    const code = await runProgram(args);
    await expectRecords(cwd, earlier);
    return { code, ...written };
  } finally {
    stdout.write = before.out;
    stderr.write = before.error;
    process.env = ownEnv;
    process.chdir(before.cwd);
    for (const listener of process.listeners("uncaughtException"))
      if (!listeners.includes(listener)) process.off("uncaughtException", listener);
  }
}

export interface ShellOutcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ShellOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Runs a command line as a user would type it, in an empty home, with the checkout's Node and without the network for npm.
 * Rejects only when there is no shell.
 */
export function runShell(line: string, { cwd, env = {} }: ShellOptions): Promise<ShellOutcome> {
  const child = spawn("sh", ["-c", line], {
    cwd,
    env: {
      PATH: testPath(),
      HOME: cwd,
      XDG_CACHE_HOME: testCache,
      npm_config_offline: "true",
      npm_config_update_notifier: "false",
      npm_config_audit: "false",
      npm_config_fund: "false",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  return new Promise((done, fail) => {
    child.on("error", fail);
    child.on("close", (code) => done({ code, stdout, stderr }));
  });
}

/**
 * Puts the built checkout into a folder's node_modules as the package `mcpvals`, command included, and with it packages
 * of the checkout's own node_modules.
 */
export function linkPackage(folder: string, others: readonly string[] = []): void {
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, ".bin"), { recursive: true });
  symlinkSync(root, join(modules, "mcpvals"), "junction");
  symlinkSync(join("..", "mcpvals", "dist", "main.js"), join(modules, ".bin", "mcpvals"));
  for (const name of others) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(modules, name), "junction");
  }
}

/** Puts a copy of the build into a folder's node_modules, as an installation would, and with it links to packages that it needs or that are named. */
export function installPackage(folder: string, others: readonly string[] = []): void {
  const modules = join(folder, "node_modules");
  const installed = join(modules, "mcpvals");
  for (const name of ["dist", "package.json"])
    cpSync(join(root, name), join(installed, name), { recursive: true });
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly dependencies: Readonly<Record<string, string>>;
  };
  for (const name of new Set([...Object.keys(manifest.dependencies), ...others])) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(modules, name), "junction");
  }
}
