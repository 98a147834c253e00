import type { Eval, Requirement, Task } from "../core/formats/model.ts";
import { findProgram, runningPlatform } from "../process/environment.ts";

/** What the requirements of tasks are checked against. */
export interface Provided {
  readonly eval: Eval;
  readonly env: Readonly<Record<string, string>>;
}

/** A task with a set of servers; without a variant, those of the eval. */
export interface TaskInVariant {
  readonly task: string;
  readonly variant: string | undefined;
}

/** The requirements of a task that are not met, as phrases. */
export type MissingRequirements = (of: TaskInVariant) => readonly string[];

/** Checks the requirements of all tasks, in each of the eval's variants. */
export async function missingRequirements(
  provided: Provided,
  tasks: readonly Task[],
): Promise<MissingRequirements> {
  const missing = new Map<string, readonly string[]>();
  for (const task of tasks) {
    for (const variant of provided.eval.variants?.map(({ name }) => name) ?? [undefined]) {
      const requires = task.portable?.requires ?? [];
      const problems = requires.map((requirement) => problemOf(requirement, provided, task, variant));
      const found = (await Promise.all(problems)).filter((problem) => problem !== undefined);
      missing.set(keyOf({ task: task.name, variant }), [...new Set(found)]);
    }
  }
  return (of) => missing.get(keyOf(of)) ?? [];
}

function keyOf({ task, variant }: TaskInVariant): string {
  return JSON.stringify([task, variant ?? null]);
}

function listOf(known: object, none: string): string {
  const names = Object.keys(known);
  return names.length === 0 ? none : `there are ${names.join(", ")}`;
}

/** Accepted names of platforms, with Node's name for each. */
const platforms: Readonly<Record<string, string>> = {
  linux: "linux",
  macos: "darwin",
  darwin: "darwin",
  windows: "win32",
  win32: "win32",
};

/** Undefined when the requirement is met. */
async function problemOf(
  { kind, name = "" }: Requirement & { readonly name?: string },
  { eval: spec, env }: Provided,
  task: Task,
  variant: string | undefined,
): Promise<string | undefined> {
  const quoted = JSON.stringify(name);
  const { dir = "", extensions = {} } = task.portable ?? {};
  switch (kind) {
    case "command": {
      if ((await findProgram(name, { env, cwd: dir })) !== undefined) return undefined;
      const where = /[/\\]/.test(name) ? "is not an executable file" : "is not on PATH";
      return `the command ${quoted}, which ${where}`;
    }
    case "env": {
      const value = Object.hasOwn(env, name) ? env[name] : undefined;
      if (value === undefined) return `the variable ${name}, which is not set`;
      return value === "" ? `the variable ${name}, which is empty` : undefined;
    }
    case "server": {
      const known =
        variant === undefined
          ? { ...spec.servers, ...spec.taskServers?.[task.name] }
          : (spec.variants?.find((each) => each.name === variant)?.servers[task.name] ?? {});
      if (Object.hasOwn(known, name)) return undefined;
      const where =
        variant === undefined ? "is not configured" : `the variant ${JSON.stringify(variant)} does not have`;
      return `the server ${quoted}, which ${where} (${listOf(known, "no servers are configured")})`;
    }
    case "platform": {
      const running = runningPlatform();
      const asked = name.toLowerCase();
      if ((Object.hasOwn(platforms, asked) ? platforms[asked] : asked) === running) return undefined;
      const here = Object.entries(platforms).find(([, platform]) => platform === running)?.[0] ?? running;
      return `the platform ${quoted}, and this is ${here}`;
    }
    case "judge":
      return spec.judge === undefined ? "a judge, and none is configured" : undefined;
    case "extension": {
      if (Object.hasOwn(extensions, name)) return undefined;
      const known = listOf(extensions, "there are none");
      return `the extension ${quoted}, which is not configured (${known})`;
    }
  }
}
