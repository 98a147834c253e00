import type { SandboxSpec } from "../core/formats/model.ts";
import type { ProcessSpec } from "../process/spawn.ts";
import type { Mount } from "./mounts.ts";
import type { MountPlan } from "./plan-mounts.ts";

/**
 * The arguments of bubblewrap that confine a program, without the program. They hold its environment, so they are for
 * `--args` and not for a command line. The program also gets PWD, which bubblewrap always sets.
 */
export function bubblewrapArguments(
  { env, cwd }: Pick<ProcessSpec, "env" | "cwd">,
  { mounts, home }: MountPlan,
  { network }: Pick<SandboxSpec, "network">,
): readonly string[] {
  const variables = { HOME: home, ...env };
  return [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    ...(network === "host" ? [] : ["--unshare-net"]),
    "--disable-userns",
    "--cap-drop",
    "ALL",
    "--new-session",
    "--die-with-parent",
    ...mounts.flatMap(mountArguments),
    // There is the file of bubblewrap itself, as it is outside: root owns it, and could change its mode.
    "--perms",
    "0555",
    "--size",
    "4096",
    "--tmpfs",
    "/proc/1",
    "--remount-ro",
    "/proc/1",
    // What bubblewrap makes for the mounts is in memory without a limit.
    "--remount-ro",
    "/dev",
    "--remount-ro",
    "/",
    // Root may write settings of the system there even without capabilities.
    "--remount-ro",
    "/proc",
    "--clearenv",
    ...Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]),
    "--chdir",
    cwd,
  ];
}

function mountArguments(mount: Mount): readonly string[] {
  switch (mount.kind) {
    case "read":
      return ["--ro-bind", mount.source, mount.at];
    case "write":
      return ["--bind", mount.source, mount.at];
    case "link":
      return ["--symlink", mount.target, mount.at];
    case "memory":
      return ["--perms", "1777", "--size", String(mount.size), "--tmpfs", mount.at];
    case "folder":
      return ["--perms", "0700", "--dir", mount.at];
    case "proc":
      return ["--proc", mount.at];
    case "devices":
      return ["--dev", mount.at];
  }
}
