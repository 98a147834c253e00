import { spawn } from "node:child_process";
import { performance } from "node:perf_hooks";

/** A budget, measured: what we need against a floor measured in the same run. */
export interface Row {
  readonly name: string;
  readonly measured: string;
  readonly floor: string;
  readonly target: string;
  readonly holds: boolean;
}

/** The middle value; the mean of the two middle ones for an even number. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low = 0, high = 0] =
    sorted.length % 2 === 1 ? [sorted[middle], sorted[middle]] : sorted.slice(middle - 1);
  return (low + high) / 2;
}

/** Runs two things in turn, `rounds` times after one warm-up each, so that a drifting machine affects both alike. */
export async function inTurn(
  rounds: number,
  ours: () => Promise<number>,
  floor: () => Promise<number>,
): Promise<{ readonly ours: number; readonly floor: number; readonly ratio: number }> {
  await ours();
  await floor();
  const pairs: [number, number][] = [];
  for (let round = 0; round < rounds; round++) pairs.push([await ours(), await floor()]);
  return {
    ours: median(pairs.map(([value]) => value)),
    floor: median(pairs.map(([, value]) => value)),
    ratio: median(pairs.map(([a, b]) => a / b)),
  };
}

/** Milliseconds that a whole process takes; rejects when it does not exit with `exitCode`, by default 0. */
export function processTime(
  command: string,
  args: readonly string[],
  { exitCode = 0, ...options }: { readonly cwd?: string; readonly exitCode?: number } = {},
): Promise<number> {
  const started = performance.now();
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"], ...options });
  let stderr = "";
  child.stderr.on("data", (chunk) => (stderr += String(chunk)));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => {
      if (code === exitCode) resolve(performance.now() - started);
      else reject(new Error(`${command} ${args.join(" ")} ended with ${code}: ${stderr}`));
    });
  });
}
