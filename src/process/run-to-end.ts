import { untilAborted } from "./deadline.ts";
import type { ProgramOutput } from "./program-output.ts";
import type { ManagedProcess, ProcessExit } from "./spawn.ts";

/** How long pipes that a background process holds are read after the program's end, in milliseconds. */
const drainMs = 200;
/** What is killed has so long to end by itself after SIGTERM, in milliseconds. */
const termMs = 200;

export interface RunToEndOptions {
  /** Collects what it writes. */
  readonly output: ProgramOutput;
  readonly stdin: string;
  /** Kills it with everything that it started; its reason is then thrown. */
  readonly signal: AbortSignal;
  /** Gets a program that has ended and left processes running. Default: they are killed. */
  readonly adopt?: (child: ManagedProcess) => void;
}

/** Waits until a program that was just started ends by itself. */
export async function runToEnd(
  child: ManagedProcess,
  { output, stdin, signal, adopt }: RunToEndOptions,
): Promise<ProcessExit> {
  try {
    output.attach(child);
    child.stdin.end(stdin);
    const exit = await untilAborted(child.exited, signal);
    await untilAborted(output.settle(drainMs), signal);
    output.stop();
    if (await child.release()) return exit;
    if (adopt === undefined) await child.stop({ stdinMs: 0, termMs });
    else adopt(child);
    return exit;
  } catch (error) {
    await child.stop({ stdinMs: 0, termMs });
    throw error;
  }
}
