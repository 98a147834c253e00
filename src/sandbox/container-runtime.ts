import { homedir } from "node:os";
import { getgid, getuid } from "node:process";
import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import { type ManagedProcess, spawnProcess } from "../process/spawn.ts";
import { runToEnd, type Tried } from "./try-nothing.ts";

/** A container program with an engine that works. */
export interface ContainerRuntime {
  /** The program with the arguments that go before any of its commands. */
  readonly command: readonly string[];
  /** Arguments that go directly after `run`. */
  readonly runArguments: readonly string[];
  readonly engine: "docker" | "podman";
  /** Whether the engine runs as an ordinary user, so that user numbers inside are others than outside. */
  readonly rootless: boolean;
  /** Our own user and group, as in `1000:1000`. */
  readonly user: string;
}

/** How long a question to the engine may take, in milliseconds. */
const longest = 30_000;

/** Where container programs are. The PATH of an extension must not choose what confines it. */
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

/** Environment of the container program: it finds its settings in the home folder. */
function clientEnvironment(): Record<string, string> {
  return { PATH: programFolders.join(":"), HOME: homedir() };
}

/**
 * Finds the container program that the spec names, else `docker` or `podman`, whichever has an engine that answers. What
 * follows `run` in a runtime goes after `run`. Throws McpvalsError `sandbox/unavailable`, and the signal's reason.
 */
export async function findRuntime(spec: SandboxSpec, signal: AbortSignal): Promise<ContainerRuntime> {
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

/** What an engine is, or why it is not to be had. */
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
export async function runRuntime(
  command: readonly string[],
  args: readonly string[],
  signal: AbortSignal,
  ms: number = longest,
): Promise<Tried> {
  return runToEnd(await spawnRuntime(command, args), signal, ms);
}

/** Starts the container program. `variables` are added to its environment. Throws McpvalsError `server/spawn-failed`. */
export function spawnRuntime(
  [program = "", ...before]: readonly string[],
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<ManagedProcess> {
  const env = { ...variables, ...clientEnvironment() };
  return spawnProcess({ command: program, args: [...before, ...args], env, cwd: "/" });
}

export function lastLine(text: string): string | undefined {
  const line = text.trim().split("\n").at(-1);
  return line === "" ? undefined : line;
}
