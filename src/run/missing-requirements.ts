import type { Eval, ExtensionSpec, Requirement, Task } from "../core/formats/model.ts";
import { findProgram, runningPlatform } from "../process/environment.ts";

/** What the requirements of tasks are checked against. */
export interface Provided {
  readonly eval: Eval;
  readonly env: Readonly<Record<string, string>>;
}

/** A task with a set of servers; without one, those of the eval. */
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
  const variants = provided.eval.variants?.map(({ name }) => name) ?? [undefined];
  for (const task of tasks.filter(({ portable }) => portable !== undefined)) {
    for (const variant of variants)
      missing.set(keyOf(task.name, variant), await problemsOf(provided, task, variant));
  }
  return ({ task, variant }) => missing.get(keyOf(task, variant)) ?? [];
}

function keyOf(task: string, variant: string | undefined): string {
  return JSON.stringify([task, variant ?? null]);
}

async function problemsOf(provided: Provided, task: Task, variant: string | undefined): Promise<string[]> {
  if (task.portable === undefined) return [];
  const { requires, dir, extensions = {} } = task.portable;
  const context = { ...provided, task: task.name, variant, dir, extensions };
  const problems = await Promise.all(requires.map((requirement) => problemOf(requirement, context)));
  return [...new Set(problems.filter((problem) => problem !== undefined))];
}

interface CheckContext extends Provided, TaskInVariant {
  /** Absolute path of the task's folder. */
  readonly dir: string;
  /** Those that the task may use. */
  readonly extensions: Readonly<Record<string, ExtensionSpec>>;
}

/** Undefined when the requirement is met. */
async function problemOf(requirement: Requirement, context: CheckContext): Promise<string | undefined> {
  switch (requirement.kind) {
    case "command":
      return commandProblem(requirement.name, context);
    case "env":
      return envProblem(requirement.name, context);
    case "server":
      return serverProblem(requirement.name, context);
    case "platform":
      return platformProblem(requirement.name);
    case "judge":
      return context.eval.judge === undefined ? "a judge, and none is configured" : undefined;
    case "extension":
      return extensionProblem(requirement.name, context);
  }
}

async function commandProblem(name: string, { env, dir }: CheckContext): Promise<string | undefined> {
  if ((await findProgram(name, { env, cwd: dir })) !== undefined) return undefined;
  const where = /[/\\]/.test(name) ? "is not an executable file" : "is not on PATH";
  return `the command ${quote(name)}, which ${where}`;
}

function envProblem(name: string, { env }: CheckContext): string | undefined {
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value === undefined) return `the variable ${name}, which is not set`;
  return value === "" ? `the variable ${name}, which is empty` : undefined;
}

function serverProblem(name: string, { eval: spec, task, variant }: CheckContext): string | undefined {
  const known =
    variant === undefined
      ? { ...spec.servers, ...spec.taskServers?.[task] }
      : (spec.variants?.find((each) => each.name === variant)?.servers[task] ?? {});
  if (Object.hasOwn(known, name)) return undefined;
  const names = Object.keys(known);
  const others = names.length === 0 ? "no servers are configured" : `there are ${names.join(", ")}`;
  const where = variant === undefined ? "is not configured" : `the variant ${quote(variant)} does not have`;
  return `the server ${quote(name)}, which ${where} (${others})`;
}

function extensionProblem(name: string, { extensions }: CheckContext): string | undefined {
  if (Object.hasOwn(extensions, name)) return undefined;
  const names = Object.keys(extensions);
  const others = names.length === 0 ? "there are none" : `there are ${names.join(", ")}`;
  return `the extension ${quote(name)}, which is not configured (${others})`;
}

/** Accepted names of platforms, with Node's name for each. */
const platforms: Readonly<Record<string, string>> = {
  linux: "linux",
  macos: "darwin",
  darwin: "darwin",
  windows: "win32",
  win32: "win32",
};

function platformProblem(name: string): string | undefined {
  const running = runningPlatform();
  const asked = name.toLowerCase();
  if ((Object.hasOwn(platforms, asked) ? platforms[asked] : asked) === running) return undefined;
  const here = Object.entries(platforms).find(([, platform]) => platform === running)?.[0] ?? running;
  return `the platform ${quote(name)}, and this is ${here}`;
}

function quote(name: string): string {
  return JSON.stringify(name);
}
