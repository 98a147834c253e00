import { randomUUID } from "node:crypto";
import { realpath, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { execPath, getgid, getuid } from "node:process";
import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import { type ManagedProcess, type ProcessSpec, spawnProcess } from "../process/spawn.ts";
import { makeTemporaryFolder } from "../process/folders.ts";
import { guardUndo } from "../process/watchdog.ts";
import {
  checkOnce,
  type ConfinedProcess,
  ConfinedProgram,
  type Confinement,
  inMegabytes,
  runToEnd,
  type Sandbox,
  type Tried,
} from "./sandbox.ts";
import { isInside, type ListedMount, listedMounts } from "./mounts.ts";

/**
 * Confines with a container of Docker or Podman, whose image has the program's interpreter. The engine enforces the limits:
 * memory, files in memory included, whose excess ends the program; and 16 threads for each allowed process, beyond which
 * starting one fails. Paths and users are those of this machine. A container is removed when it is stopped; when mcpvals
 * itself is killed, it ends only if its program ends with its stdin.
 */
export const container: Sandbox = {
  kind: "docker",
  check: checkOnce(async (spec, signal) => {
    imageOf(spec);
    await checkContainer(spec, await runtimeOf(spec, signal), signal);
  }),
  start: startContainer,
};

const runtimes = new Map<string, ContainerRuntime>();

async function runtimeOf(spec: SandboxSpec, signal: AbortSignal): Promise<ContainerRuntime> {
  const key = JSON.stringify(spec.runtime ?? []);
  const runtime = runtimes.get(key) ?? (await findRuntime(spec, signal));
  runtimes.set(key, runtime);
  return runtime;
}

/** How long finding the engine may take when it was not checked before, in milliseconds. */
const findMs = 60_000;
/** Exit code of a program that was killed. */
const killed = 137;

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
  const environment = containerEnvironment(program.env, mounts);
  refuseUnsafe(Object.keys(environment.passed));
  const name = `mcpvals-${randomUUID()}`;
  const file = await writeEnvironment(environment.file);
  const args = containerArguments({
    runtime,
    spec,
    image,
    name,
    command: await commandInside(program.command),
    process: program,
    mounts,
    environmentFile: file.path,
    passedVariables: Object.keys(environment.passed),
  });
  try {
    const child = await spawnRuntime(runtime.command, args, environment.passed);
    let stopped = false;
    let broken: string | undefined;
    const note = async (): Promise<void> => {
      const { exitCode } = await child.exited;
      if (exitCode === killed && !stopped) broken = killedText(spec);
    };
    void note();
    return new ConfinedProgram(child, {
      brokenLimit: () => broken,
      onStop: () => {
        stopped = true;
      },
      cleanUp: async () => {
        await removeContainer(runtime, name);
        await file.remove();
      },
    });
  } catch (error) {
    await file.remove();
    throw error;
  }
}

/** The engine does not say why a program was killed; it kills only for memory. */
function killedText({ memoryBytes }: SandboxSpec): string {
  return `it was killed, as for using more than ${inMegabytes(memoryBytes)} of memory`;
}

/** Inside, Node is that of the image. Any other program is visible inside, or is in the image. */
async function commandInside(command: string): Promise<string> {
  return command === execPath || command === (await realpath(execPath)) ? "node" : command;
}

/** Variables that would affect the container program itself. */
function refuseUnsafe(names: readonly string[]): void {
  const unsafe = names.find((name) =>
    /^(PATH|HOME|LD_|DYLD_|DOCKER|CONTAINER|BUILDAH|PODMAN|XDG_|GO|TMPDIR)/.test(name),
  );
  if (unsafe === undefined) return;
  throw new McpvalsError(
    "server/spawn-failed",
    `the variable ${unsafe} cannot have line breaks in a container`,
  );
}

interface EnvironmentFile {
  readonly path: string;
  readonly remove: () => Promise<void>;
}

/** A file that only this user may read; it is removed with the container, or when mcpvals ends. */
async function writeEnvironment(text: string): Promise<EnvironmentFile> {
  const folder = await makeTemporaryFolder("container");
  const path = join(folder, "env");
  const guard = guardUndo([
    { kind: "remove-file", path },
    { kind: "remove-folder", path: folder },
  ]);
  await writeFile(path, text, { mode: 0o600 });
  return {
    path,
    remove: async () => {
      await rm(folder, { recursive: true, force: true });
      guard.release();
    },
  };
}

/** Longest pull of an image, in milliseconds. */
const pullMs = 15 * 60_000;
/** Longest run of a container that does nothing, in milliseconds. */
const runMs = 60_000;
/** Exit codes of `true`, and of an image without that program. */
const fineCodes: readonly (number | null)[] = [0, 127];

/** The image that a spec names. Throws McpvalsError `sandbox/unavailable` when it names none. */
function imageOf({ image }: SandboxSpec): string {
  if (image !== undefined) return image;
  throw new McpvalsError("sandbox/unavailable", "the sandbox docker needs an image", {
    hint: "Write sandbox: { kind: docker, image: IMAGE }, with an image that has what runs the program, such as node:24-slim.",
  });
}

/** Pulls the image unless it is here, and runs a container. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
async function checkContainer(
  spec: SandboxSpec,
  runtime: ContainerRuntime,
  signal: AbortSignal,
): Promise<void> {
  const image = imageOf(spec);
  const found = await runRuntime(runtime.command, ["image", "inspect", image], signal);
  if (found.exitCode !== 0) {
    const pulled = await runRuntime(runtime.command, ["pull", image], signal, pullMs);
    if (pulled.exitCode !== 0) throw refusal(`the image ${image} cannot be pulled`, pulled.stderr);
  }
  const confining = confiningArguments(runtime, spec);
  const args = ["run", ...runtime.runArguments, "--rm", ...confining, "--entrypoint", "true", image];
  const tried = await runRuntime(runtime.command, args, signal, runMs);
  if (!fineCodes.includes(tried.exitCode)) throw refusal("no container can be run here", tried.stderr);
}

function refusal(what: string, said: string): McpvalsError {
  return new McpvalsError("sandbox/unavailable", `${what}: ${lastLine(said) ?? "no error message"}`, {
    hint: "Try the image in a terminal, with docker or podman: pull it, then run it.",
  });
}

export interface ContainerPlan {
  readonly runtime: Pick<ContainerRuntime, "engine" | "rootless" | "runArguments" | "user">;
  readonly spec: SandboxSpec;
  readonly image: string;
  /** Of the container. */
  readonly name: string;
  /** Command as it is inside. */
  readonly command: string;
  readonly process: Pick<ProcessSpec, "args" | "cwd">;
  readonly mounts: readonly ListedMount[];
  /** Absolute path of a file with lines of NAME=value. */
  readonly environmentFile: string;
  /** Variables that the container program copies from its own environment. */
  readonly passedVariables: readonly string[];
}

/** Containers count each thread as a process; Node has about ten. */
const threadsEach = 16;

/** The arguments of a container program, from `run` on, that run a confined program. */
export function containerArguments(plan: ContainerPlan): readonly string[] {
  const { runtime, spec, process } = plan;
  return [
    "run",
    ...runtime.runArguments,
    "--rm",
    "--interactive",
    "--name",
    plan.name,
    ...confiningArguments(runtime, spec),
    ...plan.mounts.flatMap((mount) => ["--mount", mountText(mount)]),
    "--env-file",
    plan.environmentFile,
    ...plan.passedVariables.flatMap((variable) => ["--env", variable]),
    "--workdir",
    process.cwd,
    "--entrypoint",
    plan.command,
    plan.image,
    ...process.args,
  ];
}

/** The arguments that confine any program. */
function confiningArguments(runtime: ContainerPlan["runtime"], spec: SandboxSpec): readonly string[] {
  return [
    // Podman has no init process of its own.
    ...(runtime.engine === "docker" ? ["--init"] : ["--read-only-tmpfs=false"]),
    "--pull",
    "never",
    "--network",
    spec.network,
    "--read-only",
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    ...limits(spec),
    ...userArguments(runtime),
  ];
}

function limits({ memoryBytes, processes }: SandboxSpec): readonly string[] {
  const half = Math.floor(memoryBytes / 2);
  return [
    "--memory",
    `${memoryBytes}b`,
    "--memory-swap",
    `${memoryBytes}b`,
    "--shm-size",
    `${half}b`,
    "--pids-limit",
    String(processes * threadsEach),
    "--ulimit",
    "core=0:0",
    "--tmpfs",
    `/tmp:rw,exec,nosuid,nodev,mode=1777,size=${half}`,
  ];
}

/** The program runs as this user, so that files in the workspace belong to this user: root inside of a rootless Docker. */
function userArguments({ rootless, engine, user }: ContainerPlan["runtime"]): readonly string[] {
  if (!rootless) return ["--user", user];
  return engine === "docker" ? ["--user", "0:0"] : ["--userns=keep-id", "--user", user];
}

/** A line of CSV, as `--mount` takes it. */
function mountText({ kind, at, source }: ListedMount): string {
  const fields = ["type=bind", `source=${source}`, `target=${at}`, ...(kind === "read" ? ["readonly"] : [])];
  return fields.map((field) => (/[",\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(",");
}

/** Variables of a program in a container, by how they are passed. */
export interface ContainerEnvironment {
  /** Text of the file with most of them. */
  readonly file: string;
  /** Those with line breaks, which such a file cannot contain. */
  readonly passed: Readonly<Record<string, string>>;
}

/**
 * Sorts variables by how they can be passed without a command line. PATH is left out, since it names folders of this machine;
 * so are a HOME and a TMPDIR that are not visible inside: home is `/tmp` then.
 */
export function containerEnvironment(
  env: Readonly<Record<string, string>>,
  mounts: readonly ListedMount[],
): ContainerEnvironment {
  const isVisible = (path: string): boolean => mounts.some(({ at }) => isInside(path, at));
  const kept = Object.entries({ HOME: "/tmp", ...env }).map(([name, value]) =>
    name === "HOME" && !isVisible(value) ? ([name, "/tmp"] as const) : ([name, value] as const),
  );
  const wanted = kept.filter(([name, value]) => name !== "PATH" && !(name === "TMPDIR" && !isVisible(value)));
  return {
    file: wanted
      .filter(isLine)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(""),
    passed: Object.fromEntries(wanted.filter((variable) => !isLine(variable))),
  };
}

function isLine([, value]: readonly [string, string]): boolean {
  return !/[\r\n]/.test(value);
}

/** A container program with an engine that works. */
export interface ContainerRuntime {
  /** The program with the arguments that go before any of its commands. */
  readonly command: readonly string[];
  /** Arguments that go directly after `run`. */
  readonly runArguments: readonly string[];
  readonly engine: "docker" | "podman";
  /** Whether the engine runs as an ordinary user, so that user ids differ inside. */
  readonly rootless: boolean;
  /** This user and group, such as `1000:1000`. */
  readonly user: string;
}

/** Longest wait for an answer of the engine, in milliseconds. */
const longest = 30_000;

/** Folders of container programs. The PATH of an extension must not choose what confines it. */
const programFolders = [
  "/usr/local/bin",
  "/usr/bin",
  "/bin",
  "/usr/sbin",
  "/sbin",
  "/opt/homebrew/bin",
  "/opt/podman/bin",
  "/Applications/Docker.app/Contents/Resources/bin",
  "/snap/bin",
  "/run/current-system/sw/bin",
];

/** The container program finds its settings in the home folder. */
function clientEnvironment(): Record<string, string> {
  return { PATH: programFolders.join(":"), HOME: homedir() };
}

/**
 * Finds the container program of the spec, else `docker` or `podman`, whichever has an engine that answers. Arguments after
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

type EngineFacts = Pick<ContainerRuntime, "engine" | "rootless">;

/** The kind of an engine, or why it is unavailable. */
async function askEngine(command: readonly string[], signal: AbortSignal): Promise<EngineFacts | string> {
  let tried: Tried;
  try {
    tried = await runRuntime(command, ["info", "--format", "{{json .}}"], signal);
  } catch (error) {
    signal.throwIfAborted();
    return error instanceof Error ? error.message : String(error);
  }
  const { exitCode, stdout, stderr } = tried;
  if (exitCode !== 0) return lastLine(stderr) ?? `info ended with exit code ${exitCode}`;
  return readFacts(stdout) ?? "info did not answer as Docker or Podman do";
}

function readFacts(text: string): EngineFacts | undefined {
  try {
    const facts = JSON.parse(text) as {
      host?: { security?: { rootless?: boolean } };
      ServerVersion?: string;
      SecurityOptions?: readonly string[];
    };
    if (facts.host !== undefined)
      return { engine: "podman", rootless: facts.host.security?.rootless === true };
    // A client without an engine answers too, without a version of its server.
    if ((facts.ServerVersion ?? "") === "") return undefined;
    return { engine: "docker", rootless: facts.SecurityOptions?.includes("name=rootless") === true };
  } catch {
    return undefined; // no JSON
  }
}

/** Runs a command of the container program to its end. Throws what starting it throws, and the signal's reason. */
async function runRuntime(
  command: readonly string[],
  args: readonly string[],
  signal: AbortSignal,
  ms: number = longest,
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
  const line = text.trim().split("\n").at(-1);
  return line === "" ? undefined : line;
}

/** Longest time that removing one may take, in milliseconds. */
const removeMs = 30_000;

/**
 * Removes a container whatever state it is in; one that is not there is fine. Never throws: what could not be removed is
 * told as a warning of this process.
 */
async function removeContainer(runtime: ContainerRuntime, name: string): Promise<void> {
  const reason = await tryToRemove(runtime, name);
  if (reason === undefined) return;
  const again = [...runtime.command, "rm", "--force", name].join(" ");
  process.emitWarning(`a container could not be removed, so remove it yourself (${again}): ${reason}`);
}

async function tryToRemove({ command, engine }: ContainerRuntime, name: string): Promise<string | undefined> {
  try {
    // Podman would first ask the program to end, for ten seconds.
    const atOnce = engine === "podman" ? ["--time", "0"] : [];
    const args = ["rm", "--force", ...atOnce, "--volumes", name];
    const { exitCode, stderr } = await runRuntime(command, args, AbortSignal.timeout(removeMs));
    if (exitCode === 0 || /no such container|no container with name/i.test(stderr)) return undefined;
    return lastLine(stderr) ?? `exit code ${exitCode}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
