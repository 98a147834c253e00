import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { dirname } from "node:path/posix";
import { McpvalsError } from "../base/error.ts";
import type { SandboxSpec } from "../model/sandbox.ts";
import { processMarkerName, runMarkerName } from "../process/watchdog.ts";
import { spawnProcess } from "../process/spawn.ts";
import { makeTemporaryFolder } from "../process/folders.ts";
import { mountProgram } from "./mounts.ts";
import {
  checkOnce,
  confined,
  type ConfinedProcess,
  type Confinement,
  type Sandbox,
  tryNothing,
  watchLimits,
} from "./sandbox.ts";

/**
 * Confines with Seatbelt of macOS: every access that the profile does not allow is denied. It is written for macOS 13 and
 * later but not tested there, so a trial start is made before it is used. Weaker than bubblewrap:
 * - other processes and their command lines are visible;
 * - memory and processes are only polled, and orphaned processes are neither counted nor stopped at the end;
 * - `/tmp` does not exist; TMPDIR names a new folder instead.
 */
export const seatbelt: Sandbox = {
  kind: "process",
  check: checkOnce(checkSeatbelt),
  start: startSeatbelt,
};

async function checkSeatbelt(spec: SandboxSpec, signal: AbortSignal): Promise<void> {
  const { exitCode, stderr } = await tryNothing(spec, signal, startSeatbelt);
  if (exitCode === 0) return;
  throw new McpvalsError("sandbox/unavailable", `sandbox-exec does not work here: ${stderr}`, {
    hint: "It comes with macOS. It does not work inside another sandbox.",
  });
}

async function startSeatbelt(confinement: Confinement): Promise<ConfinedProcess> {
  const { process: program, spec } = confinement;
  const { command, readable, writable } = await mountProgram(confinement, [
    "/usr",
    "/bin",
    "/sbin",
    "/System",
  ]);
  // A writable folder besides the workspace; failing to remove it is not an error.
  const own = await makeTemporaryFolder("sandbox");
  const cleanUp = (): Promise<void> =>
    rm(own, { recursive: true, force: true, maxRetries: 3 }).catch((error: Error) =>
      process.emitWarning(error),
    );
  const [home, temporary] = [join(own, "home"), join(own, "tmp")];
  await mkdir(home);
  await mkdir(temporary);
  const profile = seatbeltProfile({
    read: readable.map(({ at }) => at),
    write: [...writable.map(({ at }) => at), own],
    network: spec.network,
  });
  // Removes the variables that mark processes of mcpvals.
  const clean = ["/usr/bin/env", "-u", processMarkerName, "-u", runMarkerName, command];
  try {
    const child = await spawnProcess({
      command: "/usr/bin/sandbox-exec",
      args: ["-p", profile, ...clean, ...program.args],
      env: { HOME: home, TMPDIR: temporary, ...program.env },
      cwd: program.cwd,
    });
    return confined(child, { brokenLimit: watchLimits({ child, spec, own: -1 }), cleanUp });
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

const systemFolders =
  `/usr /bin /sbin /System /Library/Apple /Library/Developer/CommandLineTools /nix/store /private/etc/ssl
  /private/var/db/dyld /private/var/db/timezone /private/var/select`.split(/\s+/);

const systemFiles =
  `/ /dev /dev/null /dev/zero /dev/random /dev/urandom /dev/fd /dev/stdin /dev/stdout /dev/stderr
  /private/etc/group /private/etc/hosts /private/etc/localtime /private/etc/nsswitch.conf
  /private/etc/passwd /private/etc/protocols /private/etc/resolv.conf /private/etc/services`.split(/\s+/);

/** System links whose metadata must be readable so that they can be followed. */
const systemLinks = ["/etc", "/tmp", "/var", "/private", "/private/etc", "/private/var", "/private/tmp"];

const services = `com.apple.logd com.apple.system.logger com.apple.system.notification_center
  com.apple.system.opendirectoryd.libinfo com.apple.system.opendirectoryd.membership`.split(/\s+/);

const networkServices = `com.apple.SystemConfiguration.configd com.apple.SystemConfiguration.DNSConfiguration
  com.apple.dnssd.service com.apple.networkd com.apple.trustd.agent com.apple.SecurityServer`.split(/\s+/);

/**
 * The profile for `sandbox-exec`. It denies everything except the listed paths, system files and what every program needs. Only the
 * metadata of parent folders of listed paths is readable. All paths are absolute and resolved.
 */
export function seatbeltProfile({
  read,
  write,
  network,
}: Pick<Confinement, "read" | "write"> & Pick<SandboxSpec, "network">): string {
  const listed = [...read, ...write];
  return [
    "(version 1)",
    "(deny default)",
    "(allow process-exec)",
    "(allow process-fork)",
    "(allow signal (target same-sandbox))",
    "(allow process-info* (target same-sandbox))",
    "(allow sysctl-read)",
    "(allow ipc-posix-sem)",
    allow("mach-lookup", services.map(named)),
    allow("file-read-metadata", [...new Set([...systemLinks, ...listed.flatMap(above)])].map(literal)),
    allow("file-read*", [...systemFolders.map(subpath), ...systemFiles.map(literal), ...listed.map(subpath)]),
    allow("file-write*", write.map(subpath)),
    allow("file-write-data", ["/dev/null", "/dev/zero", "/dev/stdout", "/dev/stderr"].map(literal)),
    ...(network === "host"
      ? ["(allow network*)", "(allow system-socket)", allow("mach-lookup", networkServices.map(named))]
      : []),
  ]
    .filter((line) => line !== "")
    .join("\n");
}

function allow(what: string, filters: readonly string[]): string {
  return filters.length === 0 ? "" : `(allow ${what} ${filters.join(" ")})`;
}

const named = (service: string): string => `(global-name ${quote(service)})`;
const literal = (path: string): string => `(literal ${quote(path)})`;
const subpath = (path: string): string => `(subpath ${quote(path)})`;

function quote(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** The parent folders of a path, without the root. */
function above(path: string): readonly string[] {
  const folder = dirname(path);
  return folder === path || folder === "/" ? [] : [folder, ...above(folder)];
}
