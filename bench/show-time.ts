import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Row } from "./measure.ts";
import { runTrials } from "./trial-overhead.ts";

const trials = 100_000;
const main = resolve(import.meta.dirname, "../dist/main.js");

/** How long `show` and `compare` of large runs take until they begin to print, as whole processes. */
export async function showTime(): Promise<readonly Row[]> {
  const cwd = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  try {
    const [first, second] = [await runTrials(trials, cwd), await runTrials(trials, cwd)];
    const row = async (name: string, args: readonly string[]): Promise<Row> => {
      const ms = await firstOutput(args, cwd);
      return {
        name: `${name} of ${trials} trials begins to print`,
        measured: `${Math.round(ms)} ms`,
        floor: "-",
        target: "under 2000 ms",
        holds: ms < 2000,
      };
    };
    return [
      await row("show", ["show", first.result.id]),
      await row("compare", ["compare", first.result.id, second.result.id]),
    ];
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}

/** Milliseconds until a command line writes to stdout; rejects when it does not exit with 0. */
async function firstOutput(args: readonly string[], cwd: string): Promise<number> {
  const started = performance.now();
  let first: number | undefined;
  const child = spawn(process.execPath, [main, ...args], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  child.stdout.on("data", () => (first ??= performance.now() - started));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0 || first === undefined) throw new Error(`mcpvals ${args.join(" ")} ended with ${code}`);
  return first;
}
