import { createHash } from "node:crypto";
import { canonicalJson, type Json } from "../base/json.ts";
import type { Task } from "../model/task.ts";

/** Hexadecimal digits of a fingerprint: enough that no two tasks, or tables of prices, have the same. */
const length = 16;

/**
 * The fingerprint of each task, by its name: a hash of what it is and how it is graded, wherever its file is and however often it is
 * tried. Absent for a check. `tasks` are without secrets, as a plan is written.
 */
export function fingerprintsOf(tasks: readonly Task[]): Readonly<Record<string, string>> | undefined {
  const compared = tasks.filter(({ form }) => form !== "check");
  if (compared.length === 0) return undefined;
  return Object.fromEntries(compared.map((task) => [task.name, fingerprintOf(task)]));
}

function fingerprintOf(task: Task): string {
  const { location: _, servers: __, graders = [], portable, workspace, ...rest } = task;
  const plain = {
    ...rest,
    ...(workspace && { fixtures: workspace.fixtures }),
    graders: graders.map(({ type, name, weight, required, config }) => ({
      type,
      name,
      weight,
      required,
      config,
    })),
    portable: portable && { ...portable, file: "", dir: "", repository: "", extensions: {}, runs: 1 },
  };
  return fingerprintOfJson(plain);
}

/** A hash of a value as JSON, whatever the order of its keys. */
export function fingerprintOfJson(value: unknown): string {
  const text = canonicalJson(JSON.parse(JSON.stringify(value)) as Json);
  return createHash("sha256").update(text).digest("hex").slice(0, length);
}
