import { spawn } from "node:child_process";
import { Socket } from "node:net";
import { runMarker, runMarkerName } from "./marker.ts";

/**
 * Kills what is left when this process is killed in a way that runs none of its code. It learns the process groups over a
 * pipe that only we hold, and its end is our end. `$1` is the marker of the run; without /proc it finds groups only.
 */
const script = `
trap '' INT TERM HUP QUIT
groups= search=
while read -r order group; do
  case $order in
    add) groups="$groups $group" ;;
    del)
      left=
      for one in $groups; do [ "$one" = "$group" ] || left="$left $one"; done
      groups=$left ;;
    search) search=yes ;;
  esac
done
[ -n "$groups$search" ] || exit 0
for one in $groups; do kill -9 "-$one"; done
for round in 1 2 3; do
  for file in $(grep -lsF "$1" /proc/[0-9]*/environ); do
    pid=\${file#/proc/}
    kill -9 "\${pid%/environ}"
  done
done
`;

let pipe: Socket | undefined;

/** Has a process group killed if this process ends without stopping it. `path` is where to find the system's tools. */
export function guardGroup(group: number, path: string | undefined): void {
  if (process.platform === "win32") return;
  pipe ??= startWatchdog(path);
  pipe?.write(`add ${group}\n`);
}

/** Has what carries the run's marker searched for and killed in that case, even if no group is left by then. */
export function guardStrays(): void {
  pipe?.write("search\n");
}

/** Takes back {@link guardGroup}: the whole tree has ended. */
export function releaseGroup(group: number): void {
  pipe?.write(`del ${group}\n`);
}

/** Takes back {@link guardGroup} if nobody is left in the group, since its number may then belong to others soon. */
export function releaseEmptyGroup(group: number): void {
  if (pipe === undefined) return;
  try {
    process.kill(-group, 0);
  } catch {
    releaseGroup(group);
  }
}

function startWatchdog(path: string | undefined): Socket | undefined {
  const child = spawn("/bin/sh", ["-c", script, "mcpvals-watchdog", `${runMarkerName}=${runMarker}`], {
    cwd: "/",
    env: { PATH: ["/usr/bin", "/bin", ...(path === undefined ? [] : [path])].join(":") },
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  // Without a shell, or when someone killed it, there is no safety net; nothing else depends on it.
  child.on("error", () => undefined);
  child.stdin.on("error", () => undefined);
  child.unref();
  if (!(child.stdin instanceof Socket)) return undefined;
  child.stdin.unref();
  return child.stdin;
}
