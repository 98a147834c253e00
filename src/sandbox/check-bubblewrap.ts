import { constants } from "node:fs";
import { access, readFile } from "node:fs/promises";
import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import { type Start, tryNothing } from "./try-nothing.ts";

/** Where the system's own programs are. The PATH of an extension must not choose what confines it. */
const folders = ["/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin"];

/** Absolute path of bubblewrap. Throws McpvalsError `sandbox/unavailable`. */
export async function findBubblewrap(): Promise<string> {
  for (const folder of folders) {
    const path = `${folder}/bwrap`;
    if (await isProgram(path)) return path;
  }
  throw new McpvalsError("sandbox/unavailable", "bubblewrap is not installed (no bwrap in /usr/bin)", {
    hint: "Install it: apt install bubblewrap, dnf install bubblewrap, apk add bubblewrap or pacman -S bubblewrap.",
  });
}

async function isProgram(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** Runs a program that does nothing. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
export async function checkBubblewrap(spec: SandboxSpec, signal: AbortSignal, start: Start): Promise<void> {
  const { exitCode, stderr } = await tryNothing(spec, signal, start);
  if (exitCode !== 0) throw await explain(stderr);
}

async function explain(said: string): Promise<McpvalsError> {
  if (/unknown option|requires --unshare-user/i.test(said)) {
    return refusal(`this bubblewrap is too old: ${said}`, "Install bubblewrap 0.8 or newer.");
  }
  return refusal(said === "" ? "it ended without a word" : said, await namespaceHint());
}

/** Names the setting of this machine that forbids user namespaces, when it is one that is known. */
async function namespaceHint(): Promise<string> {
  if ((await setting("kernel/unprivileged_userns_clone")) === "0") {
    return "User namespaces are forbidden here: sysctl kernel.unprivileged_userns_clone=1 allows them.";
  }
  if ((await setting("user/max_user_namespaces")) === "0") {
    return "User namespaces are forbidden here: sysctl user.max_user_namespaces=10000 allows them.";
  }
  if ((await setting("kernel/apparmor_restrict_unprivileged_userns")) === "1") {
    return (
      "AppArmor allows user namespaces only to programs with a profile that says so: install one for bwrap " +
      "(package apparmor-profiles has bwrap-userns-restrict), or sysctl kernel.apparmor_restrict_unprivileged_userns=0."
    );
  }
  return (
    "It must be allowed to make user namespaces. In a container that often takes --security-opt seccomp=unconfined " +
    "and --security-opt systempaths=unconfined."
  );
}

async function setting(name: string): Promise<string | undefined> {
  try {
    return (await readFile(`/proc/sys/${name}`, "utf8")).trim();
  } catch {
    return undefined; // this kernel has no such setting
  }
}

function refusal(reason: string, hint?: string): McpvalsError {
  const message = `bubblewrap does not work here: ${reason}`;
  return new McpvalsError("sandbox/unavailable", message, hint === undefined ? {} : { hint });
}
