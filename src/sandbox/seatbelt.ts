import { mkdir, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { execPath } from "node:process";
import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import { processMarkerName, runMarkerName } from "../process/marker.ts";
import { spawnProcess } from "../process/spawn.ts";
import { makeTemporaryFolder } from "../process/temporary-folder.ts";
import { checkOnce } from "./check-once.ts";
import { ConfinedProgram } from "./confined-program.ts";
import { findCommand } from "./find-command.ts";
import { installFolders } from "./install-folders.ts";
import { isInside } from "./is-inside.ts";
import { listedMounts } from "./listed-mounts.ts";
import type { ConfinedProcess, Confinement, Sandbox } from "./sandbox.ts";
import { seatbeltProfile } from "./seatbelt-profile.ts";
import { tryNothing } from "./try-nothing.ts";
import { watchLimits } from "./watch-limits.ts";

/**
 * Confines with Seatbelt of macOS: every access that the profile does not allow is refused. It was written for macOS 13 and
 * later and has not been tried there by its makers, so it is tried for real before it is used. Weaker than bubblewrap:
 * - other processes and their command lines can be seen;
 * - memory and processes are only watched, and what lost its parent is neither counted nor found at the end;
 * - `/tmp` is not there; TMPDIR names a fresh folder instead.
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
    hint: "It comes with macOS. It does not work inside of another sandbox.",
  });
}

async function startSeatbelt({ process: program, read, write, spec }: Confinement): Promise<ConfinedProcess> {
  const visible = ["/usr", "/bin", "/sbin", "/System", ...read, ...write];
  const isVisible = (path: string): boolean => visible.some((folder) => isInside(path, folder));
  const { command, programs } = await findCommand(program, isVisible);
  const needed = [...new Set([...programs, execPath])].filter((path) => !isVisible(path));
  const folders = await Promise.all(needed.map((path) => installFolders(path, homedir())));
  const { readable, writable } = await listedMounts([...read, ...folders.flat()], write);
  const own = await makeOwnFolder();
  const profile = seatbeltProfile({
    read: readable.map(({ at }) => at),
    write: [...writable.map(({ at }) => at), own.path],
    network: spec.network,
  });
  // The variables that mark our processes are taken away.
  const clean = ["/usr/bin/env", "-u", processMarkerName, "-u", runMarkerName, command];
  try {
    const child = await spawnProcess({
      command: "/usr/bin/sandbox-exec",
      args: ["-p", profile, ...clean, ...program.args],
      env: { HOME: own.home, TMPDIR: own.temporary, ...program.env },
      cwd: program.cwd,
    });
    const brokenLimit = watchLimits({ child, spec, own: 0, countsChild: true });
    return new ConfinedProgram(child, { brokenLimit, cleanUp: own.remove });
  } catch (error) {
    await own.remove();
    throw error;
  }
}

interface OwnFolder {
  readonly path: string;
  readonly home: string;
  readonly temporary: string;
  readonly remove: () => Promise<void>;
}

/** What it may write besides the workspace; removed when it has ended. */
async function makeOwnFolder(): Promise<OwnFolder> {
  const path = await makeTemporaryFolder("sandbox");
  const [home, temporary] = [join(path, "home"), join(path, "tmp")];
  await mkdir(home);
  await mkdir(temporary);
  const remove = (): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(warn);
  return { path, home, temporary, remove };
}

/** A folder that is left in the temporary folder is no reason to fail. */
function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}
