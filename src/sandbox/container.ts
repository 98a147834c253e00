import { McpvalsError, messageOf } from "../base/error.ts";
import { randomUUID } from "node:crypto";
import { realpath, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { execPath, getgid, getuid } from "node:process";
import type { SandboxSpec } from "../model/sandbox.ts";
import { makeTemporaryFolder } from "../process/folders.ts";
import { type ManagedProcess, type ProcessSpec, spawnProcess } from "../process/spawn.ts";
import { guardUndo } from "../process/watchdog.ts";
import { isInside, type ListedMount, listedMounts } from "./mounts.ts";
import {
  checkOnce,
  confined,
  type ConfinedProcess,
  type Confinement,
  inMegabytes,
  runToEnd,
  type Sandbox,
  threadsEach,
  type Tried,
} from "./sandbox.ts";

/**
 * Confines with a container of Docker or Podman, whose image has the program's interpreter. The engine enforces the limits: memory,
 * including files in memory, which ends the program; and 16 threads for each allowed process, after which starting one fails. Paths and
 * users are those of this machine. A container is removed when it is stopped; if mcpvals is killed, it ends only if its program ends
 * with its stdin.
 */
export const container: Sandbox = {
  kind: "docker",
  check: checkOnce(async (spec, signal) => {
    const image = imageOf(spec);
    await checkContainer(spec, image, await runtimeOf(spec, signal), signal);
  }),
  start: startContainer,
};

/** Time limits for an answer of the engine, for finding it, for a pull, and for a container that does nothing; in milliseconds. */
const answerMs = 30_000;
const findMs = 60_000;
const pullMs = 15 * 60_000;
const runMs = 60_000;
/** Exit code of a killed program. */
const killed = 137;

/** A container program with an engine that works. */
interface ContainerRuntime {
  /** The program with the arguments before any command. */
  readonly command: readonly string[];
  /** Arguments directly after `run`. */
  readonly runArguments: readonly string[];
  readonly engine: "docker" | "podman";
  /** Whether the engine runs as an ordinary user, so that user ids differ inside. */
  readonly rootless: boolean;
  /** This user and group, such as `1000:1000`. */
  readonly user: string;
}

const runtimes = new Map<string, ContainerRuntime>();

async function runtimeOf(spec: SandboxSpec, signal: AbortSignal): Promise<ContainerRuntime> {
  const key = JSON.stringify(spec.runtime ?? []);
  const runtime = runtimes.get(key) ?? (await findRuntime(spec, signal));
  runtimes.set(key, runtime);
  return runtime;
}

async function startContainer({
  process: program,
  read,
  write,
  spec,
}: Confinement): Promise<ConfinedProcess> {
  const image = imageOf(spec);
  const runtime = await runtimeOf(spec, AbortSignal.timeout(findMs));
  const { readable, writable } = await listedMounts(read, write);
  const mounts = [...readable, ...writable];
  const { file, passed } = containerEnvironment(program.env, mounts);
  const name = `mcpvals-${randomUUID()}`;
  // Node is that of the image. Any other program is mounted, or is in the image.
  const isNode = [execPath, await realpath(execPath)].includes(program.command);
  // Only this user may read the file; it is removed with the container, or when mcpvals ends.
  const folder = await makeTemporaryFolder("container");
  const environmentFile = join(folder, "env");
  const guard = guardUndo([
    { kind: "remove-file", path: environmentFile },
    { kind: "remove-folder", path: folder },
  ]);
  const removeFile = async (): Promise<void> => {
    await rm(folder, { recursive: true, force: true });
    guard.release();
  };
  const passedVariables = Object.keys(passed);
  const command = isNode ? "node" : program.command;
  const plan = {
    runtime,
    spec,
    image,
    name,
    command,
    process: program,
    mounts,
    environmentFile,
    passedVariables,
  };
  try {
    await writeFile(environmentFile, file, { mode: 0o600 });
    const child = await spawnRuntime(runtime.command, containerArguments(plan), passed);
    let stopped = false;
    let broken: string | undefined;
    const note = async (): Promise<void> => {
      const { exitCode } = await child.exited;
      // The engine gives no reason for a kill; it kills only for memory.
      if (exitCode === killed && !stopped)
        broken = `it was killed, as for using more than ${inMegabytes(spec.memoryBytes)} of memory`;
    };
    void note();
    return confined(child, {
      brokenLimit: () => broken,
      onStop: () => {
        stopped = true;
      },
      cleanUp: async () => {
        await removeContainer(runtime, name);
        await removeFile();
      },
    });
  } catch (error) {
    await removeFile();
    throw error;
  }
}

/** The image that a spec names. Throws McpvalsError `sandbox/unavailable` when it names none. */
function imageOf({ image }: SandboxSpec): string {
  if (image !== undefined) return image;
  throw new McpvalsError("sandbox/unavailable", "the sandbox docker needs an image", {
    hint: "Write sandbox: { kind: docker, image: IMAGE }, with an image that has what runs the program, such as node:24-slim.",
  });
}

/** Pulls the image if it is missing, and runs a container. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
async function checkContainer(
  spec: SandboxSpec,
  image: string,
  runtime: ContainerRuntime,
  signal: AbortSignal,
): Promise<void> {
  const run = (args: readonly string[], ms: number): Promise<Tried> =>
    runRuntime(runtime.command, args, signal, ms);
  if ((await run(["image", "inspect", image], answerMs)).exitCode !== 0) {
    const pulled = await run(["pull", image], pullMs);
    if (pulled.exitCode !== 0) throw unavailable(`the image ${image} cannot be pulled`, pulled);
  }
  const confining = confiningArguments(runtime, spec);
  const args = ["run", ...runtime.runArguments, "--rm", ...confining, "--entrypoint", "true", image];
  const tried = await run(args, runMs);
  // An image without that program ends with 127.
  if (tried.exitCode !== 0 && tried.exitCode !== 127)
    throw unavailable("no container can be run here", tried);
}

function unavailable(what: string, { stderr }: Tried): McpvalsError {
  return new McpvalsError("sandbox/unavailable", `${what}: ${lastLine(stderr) ?? "no error message"}`, {
    hint: "Try the image in a terminal, with docker or podman: pull it, then run it.",
  });
}

export interface ContainerPlan {
  readonly runtime: Pick<ContainerRuntime, "engine" | "rootless" | "runArguments" | "user">;
  readonly spec: SandboxSpec;
  readonly image: string;
  /** Name of the container. */
  readonly name: string;
  /** The command inside. */
  readonly command: string;
  readonly process: Pick<ProcessSpec, "args" | "cwd">;
  readonly mounts: readonly ListedMount[];
  /** Absolute path of a file with lines of NAME=value. */
  readonly environmentFile: string;
  /** Variables that the container program copies from its own environment. */
  readonly passedVariables: readonly string[];
}

/** The arguments of a container program, from `run` on. */
export function containerArguments(plan: ContainerPlan): readonly string[] {
  const { runtime, spec, process, name, mounts, environmentFile, passedVariables } = plan;
  return [
    ["run", ...runtime.runArguments, "--rm", "--interactive", "--name", name],
    confiningArguments(runtime, spec),
    mounts.flatMap((mount) => ["--mount", mountText(mount)]),
    ["--env-file", environmentFile],
    passedVariables.flatMap((variable) => ["--env", variable]),
    ["--workdir", process.cwd, "--entrypoint", plan.command, plan.image, ...process.args],
  ].flat();
}

/** The arguments that confine any program. */
function confiningArguments(
  { engine, rootless, user }: ContainerPlan["runtime"],
  { network, memoryBytes, processes }: SandboxSpec,
): readonly string[] {
  const half = Math.floor(memoryBytes / 2);
  // The program runs as this user, so that files in the workspace belong to this user: root inside of a rootless Docker.
  const ownUser = rootless && engine === "docker" ? "0:0" : user;
  return [
    // Podman has no init process of its own.
    engine === "docker" ? "--init" : "--read-only-tmpfs=false",
    ["--pull", "never", "--network", network, "--read-only", "--cap-drop", "ALL"],
    ["--security-opt", "no-new-privileges"],
    ["--memory", `${memoryBytes}b`, "--memory-swap", `${memoryBytes}b`, "--shm-size", `${half}b`],
    ["--pids-limit", String(processes * threadsEach), "--ulimit", "core=0:0"],
    ["--tmpfs", `/tmp:rw,exec,nosuid,nodev,mode=1777,size=${half}`],
    rootless && engine === "podman" ? "--userns=keep-id" : [],
    ["--user", ownUser],
  ].flat();
}

/** A line of CSV, as `--mount` takes it. */
function mountText({ kind, at, source }: ListedMount): string {
  const fields = ["type=bind", `source=${source}`, `target=${at}`, ...(kind === "read" ? ["readonly"] : [])];
  return fields.map((field) => (/[",\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(",");
}

/**
 * Splits variables into the text of a file, and those with line breaks, which such a file cannot contain and which the container program
 * passes on. Without PATH, which names folders of this machine, and without a HOME (then `/tmp`) or TMPDIR that is not visible
 * inside. Throws McpvalsError `server/spawn-failed` for a variable with line breaks that would affect the container program itself.
 */
export function containerEnvironment(
  env: Readonly<Record<string, string>>,
  mounts: readonly ListedMount[],
): { readonly file: string; readonly passed: Readonly<Record<string, string>> } {
  const isVisible = (path: string): boolean => mounts.some(({ at }) => isInside(path, at));
  const passed: Record<string, string> = {};
  let file = "";
  for (const [name, value] of Object.entries({ HOME: "/tmp", ...env })) {
    if (name === "PATH" || (name === "TMPDIR" && !isVisible(value))) continue;
    if (name === "HOME" && !isVisible(value)) file += "HOME=/tmp\n";
    else if (!/[\r\n]/.test(value)) file += `${name}=${value}\n`;
    else if (/^(PATH|HOME|LD_|DYLD_|DOCKER|CONTAINER|BUILDAH|PODMAN|XDG_|GO|TMPDIR)/.test(name)) {
      const message = `the variable ${name} cannot have line breaks in a container`;
      throw new McpvalsError("server/spawn-failed", message);
    } else passed[name] = value;
  }
  return { file, passed };
}

/** HOME is for the settings of the container program, which the PATH of an extension must not choose. */
function clientEnvironment(): Record<string, string> {
  const folders = `/usr/local/bin /usr/bin /bin /usr/sbin /sbin /opt/homebrew/bin /opt/podman/bin
    /Applications/Docker.app/Contents/Resources/bin /snap/bin /run/current-system/sw/bin`;
  return { PATH: folders.replaceAll(/\s+/g, ":"), HOME: homedir() };
}

/**
 * Finds the container program of the spec, else `docker` or `podman`: the first with an engine that answers. Arguments after
 * `run` in a runtime are added to `run`. Throws McpvalsError `sandbox/unavailable`, and the signal's reason.
 */
async function findRuntime(spec: SandboxSpec, signal: AbortSignal): Promise<ContainerRuntime> {
  const candidates = spec.runtime === undefined ? [["docker"], ["podman"]] : [spec.runtime];
  const user = `${getuid?.() ?? 0}:${getgid?.() ?? 0}`;
  const reasons: string[] = [];
  for (const words of candidates) {
    const split = words.indexOf("run");
    const command = split === -1 ? words : words.slice(0, split);
    const runArguments = split === -1 ? [] : words.slice(split + 1);
    const answer = await askEngine(command, signal);
    if (typeof answer !== "string") return { command, runArguments, user, ...answer };
    reasons.push(`${command.join(" ")}: ${answer}`);
  }
  throw new McpvalsError("sandbox/unavailable", `no container engine works here: ${reasons.join("; ")}`, {
    hint: "Start Docker or Podman, or name one that works as the sandbox's runtime; its command info must work.",
  });
}

/** The kind of an engine, or why it is unavailable. */
async function askEngine(
  command: readonly string[],
  signal: AbortSignal,
): Promise<Pick<ContainerRuntime, "engine" | "rootless"> | string> {
  try {
    const { exitCode, stdout, stderr } = await runRuntime(
      command,
      ["info", "--format", "{{json .}}"],
      signal,
    );
    if (exitCode !== 0) return lastLine(stderr) ?? `info ended with exit code ${exitCode}`;
    const facts = JSON.parse(stdout) as {
      host?: { security?: { rootless?: boolean } };
      ServerVersion?: string;
      SecurityOptions?: readonly string[];
    };
    if (facts.host !== undefined)
      return { engine: "podman", rootless: facts.host.security?.rootless === true };
    // A client without an engine answers too, but without `ServerVersion`.
    if ((facts.ServerVersion ?? "") !== "")
      return { engine: "docker", rootless: facts.SecurityOptions?.includes("name=rootless") === true };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof McpvalsError) return error.message;
  }
  return "info did not answer as Docker or Podman do";
}

/** Runs a command of the container program to its end. Throws as `spawnRuntime`, and the signal's reason. */
async function runRuntime(
  command: readonly string[],
  args: readonly string[],
  signal: AbortSignal,
  ms: number = answerMs,
): Promise<Tried> {
  return runToEnd(await spawnRuntime(command, args), signal, ms);
}

/** Starts the container program. `variables` are added to its environment. Throws McpvalsError `server/spawn-failed`. */
function spawnRuntime(
  [program = "", ...before]: readonly string[],
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<ManagedProcess> {
  const env = { ...variables, ...clientEnvironment() };
  return spawnProcess({ command: program, args: [...before, ...args], env, cwd: "/" });
}

function lastLine(text: string): string | undefined {
  return text.trim().split("\n").at(-1) || undefined;
}

/** Removes a container in any state, or a missing one. Never throws: a failure is a warning of this process. */
async function removeContainer({ command, engine }: ContainerRuntime, name: string): Promise<void> {
  let reason: string;
  try {
    // Podman would give the program ten seconds to end.
    const atOnce = engine === "podman" ? ["--time", "0"] : [];
    const args = ["rm", "--force", ...atOnce, "--volumes", name];
    const { exitCode, stderr } = await runRuntime(command, args, AbortSignal.timeout(answerMs));
    if (exitCode === 0 || /no such container|no container with name/i.test(stderr)) return;
    reason = lastLine(stderr) ?? `exit code ${exitCode}`;
  } catch (error) {
    reason = messageOf(error);
  }
  const again = [...command, "rm", "--force", name].join(" ");
  process.emitWarning(`a container could not be removed, so remove it yourself (${again}): ${reason}`);
}
