import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { settlesWithin } from "./deadline.ts";
import type { ProcessTree } from "./process-tree.ts";

/** What ended the first process of a tree. */
export type StoppedBy = "stdin" | "SIGTERM" | "SIGKILL" | "already-exited";

export interface StopResult {
  readonly by: StoppedBy;
  readonly durationMs: number;
  /** Processes of the tree that did not end by themselves when the first one had. */
  readonly survivors: number;
}

export interface StopOptions {
  /** How long the process may take to end after its stdin was closed, in milliseconds. Default: 1000. */
  readonly stdinMs?: number;
  /** How long it may take to end after SIGTERM, in milliseconds. Default: 1000. */
  readonly termMs?: number;
}

/** What is needed of a process to stop it. */
export interface StopTarget {
  readonly tree: ProcessTree;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly exited: Promise<unknown>;
  readonly hasExited: () => boolean;
}

/** Longest wait for the kernel to carry out SIGKILL; a process in the middle of a disk access takes a while. */
const killMs = 2000;
/** How long descendants may take to notice that the first process has gone. */
const settleMs = 200;
/** How long the output written before the end may take to arrive. */
const drainMs = 100;

/**
 * Stops a process with everything that it started: closes its stdin, then SIGTERM, then SIGKILL, each to the whole tree,
 * and whatever outlives the first process. Closes the pipes, so that nobody who still holds them keeps this process alive.
 * Never throws.
 */
export async function stopTree(
  target: StopTarget,
  { stdinMs = 1000, termMs = 1000 }: StopOptions = {},
): Promise<StopResult> {
  const started = performance.now();
  const by = await endRoot(target, { stdinMs, termMs });
  const survivors = await endSurvivors(target.tree, by === "SIGKILL" ? 0 : termMs);
  await closePipes(target);
  return { by, durationMs: performance.now() - started, survivors };
}

async function endRoot(target: StopTarget, waits: Required<StopOptions>): Promise<StoppedBy> {
  const { tree, exited } = target;
  // Whoever is a descendant by parent number only can be seen as long as the parents live.
  await tree.survey();
  const gone = target.hasExited();
  target.stdin.end();
  if (gone) return "already-exited";
  if (await settlesWithin(exited, waits.stdinMs)) return "stdin";
  await tree.signal("SIGTERM");
  if (await settlesWithin(exited, waits.termMs)) return "SIGTERM";
  await tree.signal("SIGKILL");
  await settlesWithin(exited, killMs);
  return "SIGKILL";
}

async function endSurvivors(tree: ProcessTree, patienceMs: number): Promise<number> {
  if ((await tree.survey()) === 0) return 0;
  if (patienceMs > 0 && (await isEmptyWithin(tree, Math.min(settleMs, patienceMs)))) return 0;
  const survivors = await tree.survey();
  if (patienceMs > 0) {
    await tree.signal("SIGTERM");
    if (await isEmptyWithin(tree, patienceMs)) return survivors;
  }
  const end = performance.now() + killMs;
  do await tree.signal("SIGKILL");
  while (!(await isEmptyWithin(tree, 50)) && performance.now() < end);
  return survivors;
}

async function isEmptyWithin(tree: ProcessTree, ms: number): Promise<boolean> {
  const end = performance.now() + ms;
  for (let pause = 2; ; pause = Math.min(pause * 2, 50)) {
    if ((await tree.survey()) === 0) return true;
    const left = end - performance.now();
    if (left <= 0) return false;
    await delay(Math.min(pause, left));
  }
}

async function closePipes({ stdin, stdout, stderr }: StopTarget): Promise<void> {
  await settlesWithin(Promise.all([closed(stdout), closed(stderr)]), drainMs);
  for (const stream of [stdin, stdout, stderr]) stream.destroy();
}

/** Settles when a stream has nothing more to give. */
export function closed(stream: Readable): Promise<void> {
  return new Promise((resolve) => {
    if (stream.closed || stream.readableEnded) resolve();
    else stream.once("close", () => resolve());
  });
}
