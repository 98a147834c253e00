import { homedir } from "node:os";
import { execPath } from "node:process";
import { McpvalsError } from "../core/errors/error.ts";
import { findCommand } from "./find-command.ts";
import { installFolders } from "./install-folders.ts";
import { isInside } from "./is-inside.ts";
import type { Mount } from "./mounts.ts";
import { listedMounts } from "./listed-mounts.ts";
import { mountAround, orderMounts } from "./order-mounts.ts";
import type { Confinement } from "./sandbox.ts";
import { systemMounts } from "./system-mounts.ts";

/** What a program sees in a bubblewrap sandbox. */
export interface MountPlan {
  /** Absolute path of the program. */
  readonly command: string;
  /** In the order in which they are to be made. */
  readonly mounts: readonly Mount[];
  /** Where its home is. */
  readonly home: string;
}

/** Home of a program whose environment names none. */
const ownHome = "/tmp/home";

/**
 * Plans what a program sees: the system, itself with its interpreter, and what the confinement lists. Throws McpvalsError
 * `server/spawn-failed` when something of that is not there.
 */
export async function planMounts({ process: program, read, write, spec }: Confinement): Promise<MountPlan> {
  const system = await systemMounts();
  const visible = [...system.map(({ at }) => at), ...read, ...write];
  const isVisible = (path: string): boolean => visible.some((folder) => isInside(path, folder));
  const { command, programs } = await findCommand(program, isVisible);
  const needed = [...new Set([...programs, execPath])].filter((path) => !isVisible(path));
  const folders = await Promise.all(needed.map((path) => installFolders(path, homedir())));
  const home = program.env["HOME"] ?? ownHome;
  const { readable, writable } = await listedMounts([...read, ...folders.flat()], write);
  const mounts = orderMounts([
    ...system,
    ...readable,
    ...writable,
    ...scratch([home, program.env["TMPDIR"]], spec.memoryBytes),
    { kind: "proc", at: "/proc" },
    { kind: "devices", at: "/dev" },
  ]);
  if (!isThere(mounts, program.cwd)) throw notVisible(program.cwd);
  return { command, mounts, home };
}

/** What is fresh has only the folders that lead to a mount. */
function isThere(mounts: readonly Mount[], path: string): boolean {
  const kind = mountAround(mounts, path)?.kind;
  if (kind === undefined || kind === "proc") return false;
  const isFresh = kind === "memory" || kind === "folder";
  return !isFresh || mounts.some(({ at }) => isInside(at, path));
}

/** Each holds at most half of the memory; what they hold counts as memory too. */
function scratch(named: readonly (string | undefined)[], memoryBytes: number): readonly Mount[] {
  const folders = new Set(["/tmp", "/dev/shm", ...named.filter((path) => path?.startsWith("/") === true)]);
  folders.delete("/");
  const size = Math.max(4096, Math.floor(memoryBytes / 2 / 4096) * 4096);
  return [...folders].flatMap((at) => (at === undefined ? [] : [{ kind: "memory", at, size }]));
}

function notVisible(cwd: string): McpvalsError {
  return new McpvalsError("server/spawn-failed", `cwd is not visible in the sandbox: ${cwd}`, {
    hint: "Start it in the workspace, or let the sandbox read that folder.",
  });
}
