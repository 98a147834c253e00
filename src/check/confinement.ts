import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { McpvalsError } from "../base/error.ts";
import { defaultSandbox } from "../model/sandbox.ts";
import type { ServerSpec } from "../model/server.ts";
import { findProgram, runningPlatform } from "../process/environment.ts";
import type { ProcessSpec } from "../process/spawn.ts";
import { type Authority, createAuthority } from "../sandbox/certificates.ts";
import { openNetwork } from "../sandbox/network.ts";
import { runToEnd } from "../sandbox/sandbox.ts";
import { sandboxOf } from "../sandbox/sandboxes.ts";
import { watchedCalls } from "./access-log.ts";

// What confines a server in a check of its security and watches it, and whether that works here.

/** Memory and processes of the server with what watches it. */
const memoryBytes = 2 * 1024 ** 3;
const processes = 256;

/**
 * Why a server cannot run among planted files: it is not a program, or there is no sandbox that shows it folders of another place.
 * Undefined: it can. Throws the signal's reason.
 */
export async function whyNotConfined(spec: ServerSpec, signal: AbortSignal): Promise<string | undefined> {
  if (spec.transport !== "stdio") return "it is reached at an address, and runs elsewhere";
  if (runningPlatform() !== "linux") return "that needs bubblewrap, which exists only on Linux";
  try {
    await sandboxOf("process").check(worldSandbox, signal);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof McpvalsError)) throw error;
    const { hint } = error.details;
    return hint === undefined ? error.message : `${error.message}. ${hint}`;
  }
}

export const worldSandbox = { ...defaultSandbox, kind: "process", memoryBytes, processes } as const;

/** What answers in the network. Node runs its file as it is in the build, and as it is written in a checkout. */
export function canaryHost(authority: Authority): Pick<ProcessSpec, "command" | "args"> {
  const file = fileURLToPath(new URL(`./canary-host${extname(import.meta.url)}`, import.meta.url));
  return { command: process.execPath, args: [file, JSON.stringify(authority)] };
}

let answering: Promise<string | undefined> | undefined;

/** Why no network can be made that answers; undefined: it can. Throws the signal's reason. */
export function whyNoAnswers(signal: AbortSignal): Promise<string | undefined> {
  return (answering ??= tryAnswers(signal));
}

async function tryAnswers(signal: AbortSignal): Promise<string | undefined> {
  try {
    await using _ = await openNetwork(canaryHost(createAuthority()), signal);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof McpvalsError) return error.message;
    throw error;
  }
}

/** Options of `strace`: every process, paths of open files and protocols of sockets, and nothing but the calls. */
export const tracing: readonly string[] = [
  ..."-f --seccomp-bpf -yy -qq -s 256 -e signal=none -A -e".split(" "),
  `trace=${watchedCalls}`,
];

let tracer: Promise<string | undefined> | undefined;

/** The path of `strace`, where it works in a sandbox; undefined: it does not. Throws the signal's reason. */
export function findTracer(signal: AbortSignal): Promise<string | undefined> {
  return (tracer ??= tryTracer(signal));
}

async function tryTracer(signal: AbortSignal): Promise<string | undefined> {
  const path = await findProgram("strace", { env: { PATH: "/usr/bin:/bin:/usr/local/bin" }, cwd: "/" });
  if (path === undefined) return undefined;
  const process = { command: path, args: [...tracing, "-o", "/dev/null", "/bin/true"], env: {}, cwd: "/tmp" };
  const child = await sandboxOf("process").start({ process, read: [], write: [], spec: worldSandbox });
  const { exitCode } = await runToEnd(child, signal, 10_000);
  return exitCode === 0 ? path : undefined;
}
