import { dirname } from "node:path/posix";
import type { SandboxSpec } from "../core/formats/model.ts";

/** What a program may touch under Seatbelt. All paths are absolute and without links. */
export interface SeatbeltRules {
  readonly read: readonly string[];
  readonly write: readonly string[];
  readonly network: SandboxSpec["network"];
}

const systemFolders = [
  "/usr",
  "/bin",
  "/sbin",
  "/System",
  "/Library/Apple",
  "/Library/Developer/CommandLineTools",
  "/nix/store",
  "/private/etc/ssl",
  "/private/var/db/dyld",
  "/private/var/db/timezone",
  "/private/var/select",
];

const systemFiles = [
  "/",
  "/dev",
  "/dev/null",
  "/dev/zero",
  "/dev/random",
  "/dev/urandom",
  "/dev/fd",
  "/dev/stdin",
  "/dev/stdout",
  "/dev/stderr",
  "/private/etc/group",
  "/private/etc/hosts",
  "/private/etc/localtime",
  "/private/etc/nsswitch.conf",
  "/private/etc/passwd",
  "/private/etc/protocols",
  "/private/etc/resolv.conf",
  "/private/etc/services",
];

/** Links at the top of the system, which must be seen to be followed. */
const systemLinks = ["/etc", "/tmp", "/var", "/private", "/private/etc", "/private/var", "/private/tmp"];

const services = [
  "com.apple.logd",
  "com.apple.system.logger",
  "com.apple.system.notification_center",
  "com.apple.system.opendirectoryd.libinfo",
  "com.apple.system.opendirectoryd.membership",
];

const networkServices = [
  "com.apple.SystemConfiguration.configd",
  "com.apple.SystemConfiguration.DNSConfiguration",
  "com.apple.dnssd.service",
  "com.apple.networkd",
  "com.apple.trustd.agent",
  "com.apple.SecurityServer",
];

/**
 * The profile for `sandbox-exec` that denies everything but what the rules list, the system's own files and what a program
 * needs to run at all. Of the folders above a listed path only the names on the way to it can be seen.
 */
export function seatbeltProfile({ read, write, network }: SeatbeltRules): string {
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

/** The folders that a path lies in, without the root. */
function above(path: string): readonly string[] {
  const folder = dirname(path);
  return folder === path || folder === "/" ? [] : [folder, ...above(folder)];
}
