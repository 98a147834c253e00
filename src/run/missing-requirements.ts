import type { Eval, ExtensionSpec, Requirement, Task } from "../core/formats/model.ts";
import { findProgram } from "../process/find-program.ts";
import { runningPlatform } from "../process/platform.ts";

/** What a run has, as far as tasks may require it. */
export interface Provided {
  readonly eval: Eval;
  readonly env: Readonly<Record<string, string>>;
}

/** A task with a set of servers; without one, those of the eval. */
export interface TaskInVariant {
  readonly task: string;
  readonly variant: string | undefined;
}

/** What tasks require and is not there, as texts for the reader. */
export type MissingRequirements = (of: TaskInVariant) => readonly string[];

/** Looks for everything that tasks require, servers in each of the eval's variants. */
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
  const place = { ...provided, task: task.name, variant, dir, extensions };
  const problems = await Promise.all(requires.map((requirement) => problemOf(requirement, place)));
  return [...new Set(problems.filter((problem) => problem !== undefined))];
}

interface Place extends Provided, TaskInVariant {
  /** Absolute path of the task's folder. */
  readonly dir: string;
  /** Those that the task may use. */
  readonly extensions: Readonly<Record<string, ExtensionSpec>>;
}

/** What is wrong with one requirement; undefined when it is there. */
async function problemOf(requirement: Requirement, place: Place): Promise<string | undefined> {
  switch (requirement.kind) {
    case "command":
      return commandProblem(requirement.name, place);
    case "env":
      return envProblem(requirement.name, place);
    case "server":
      return serverProblem(requirement.name, place);
    case "platform":
      return platformProblem(requirement.name);
    case "judge":
      return place.eval.judge === undefined ? "a judge, and none is configured" : undefined;
    case "extension":
      return extensionProblem(requirement.name, place);
  }
}

async function commandProblem(name: string, { env, dir }: Place): Promise<string | undefined> {
  if ((await findProgram(name, { env, cwd: dir })) !== undefined) return undefined;
  const where = /[/\\]/.test(name) ? "is no program there" : "is not on PATH";
  return `the command ${quote(name)}, which ${where}`;
}

function envProblem(name: string, { env }: Place): string | undefined {
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value === undefined) return `the variable ${name}, which is not set`;
  return value === "" ? `the variable ${name}, which is empty` : undefined;
}

function serverProblem(name: string, { eval: spec, task, variant }: Place): string | undefined {
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

function extensionProblem(name: string, { extensions }: Place): string | undefined {
  if (Object.hasOwn(extensions, name)) return undefined;
  const names = Object.keys(extensions);
  const others = names.length === 0 ? "there are none" : `there are ${names.join(", ")}`;
  return `the extension ${quote(name)}, which is not configured (${others})`;
}

/** Names that people use for platforms, with Node's name for each. */
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
