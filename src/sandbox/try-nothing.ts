import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import { withDeadline } from "../process/deadline.ts";
import { ProgramOutput } from "../process/program-output.ts";
import type { ManagedProcess } from "../process/spawn.ts";
import type { ConfinedProcess, Confinement } from "./sandbox.ts";

/** Starts a confined program. */
export type Start = (confinement: Confinement) => Promise<ConfinedProcess>;

/** What came of a program that was run to its end; texts are without blanks around them. */
export interface Tried {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How long a program that does nothing may take, in milliseconds. */
const longest = 10_000;

/** Runs a program that does nothing in a sandbox. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
export async function tryNothing(spec: SandboxSpec, signal: AbortSignal, start: Start): Promise<Tried> {
  const process = { command: "/bin/sh", args: ["-c", "exit 0"], env: {}, cwd: "/tmp" };
  return runToEnd(await start({ process, read: [], write: [], spec }), signal, longest);
}

/**
 * Collects what a program that was just started says until it ends, and stops it. Throws McpvalsError
 * `sandbox/unavailable` when it has not ended after `ms` milliseconds, and the signal's reason.
 */
export async function runToEnd(child: ManagedProcess, signal: AbortSignal, ms: number): Promise<Tried> {
  const output = new ProgramOutput();
  output.attach(child);
  try {
    const { exitCode } = await withDeadline(async () => child.exited, {
      ms,
      signal,
      onTimeout: () =>
        new McpvalsError("sandbox/unavailable", `trying the sandbox took more than ${ms / 1000} seconds`),
    });
    await output.settle(100);
    return { exitCode, stdout: output.stdout.text.trim(), stderr: output.stderr.text.trim() };
  } finally {
    output.stop();
    await child.stop({ stdinMs: 0, termMs: 0 });
  }
}
