import { McpvalsError } from "../core/errors/error.ts";
import { signalDescendants } from "../process/descendants.ts";
import { type ProcessSpec, spawnProcess } from "../process/spawn.ts";
import { bubblewrapArguments } from "./bubblewrap-arguments.ts";
import { checkOnce } from "./check-once.ts";
import { checkBubblewrap, findBubblewrap } from "./check-bubblewrap.ts";
import { ConfinedProgram } from "./confined-program.ts";
import { memoryFileBytes } from "./memory-file-bytes.ts";
import { namespaceEnd } from "./namespace-end.ts";
import { planMounts } from "./plan-mounts.ts";
import type { Confinement, ConfinedProcess, Sandbox } from "./sandbox.ts";
import { watchLimits } from "./watch-limits.ts";
import { withoutKeys } from "./without-keys.ts";

/** Its own arguments and the filter of system calls, on the files that `spawnProcess` gives it. */
const fromFiles = ["--args", "3", "--seccomp", "4"];
/** The processes of bubblewrap itself below the first one: the one that takes in orphans inside. */
const ownProcesses = 1;
/** Node reserves as data half a gigabyte for the code of each of its threads that runs JavaScript. */
const dataRoom = 4 * 1024 ** 3;

/**
 * Confines with bubblewrap, by namespaces of the kernel: what is not listed is not there, whoever asks. The limits:
 * - the sum of memory, with files in memory, and the number of processes are watched many times a second; who breaks them is
 *   ended together with everything inside; what the kernel holds for a program but shows nobody (shared memory of System V
 *   that is not mapped, what is on its way in sockets) is not counted;
 * - one process gets no more than 4 GiB over the memory limit even between two looks (RLIMIT_DATA);
 * - `/tmp`, `/dev/shm` and a home folder outside of `/tmp` hold half of the memory each;
 * - core dumps are off. Processors and time are not limited here.
 *
 * What is inside ends with the first process of the sandbox, and with mcpvals. With `network: host` the abstract sockets of
 * this machine can be reached too. Files in a listed folder are not other files because they are sockets: what listens on
 * one can be reached.
 */
export const bubblewrap: Sandbox = {
  kind: "process",
  check: checkOnce(async (spec, signal) => checkBubblewrap(spec, signal, startBubblewrap)),
  start: startBubblewrap,
};

async function startBubblewrap(confinement: Confinement): Promise<ConfinedProcess> {
  const { process, spec } = confinement;
  const [program, plan] = await Promise.all([findBubblewrap(), planMounts(confinement)]);
  const inside = bubblewrapArguments(process, plan, spec);
  if (inside.some((argument) => argument.includes("\0"))) throw zeroInArgument();
  const child = await spawnProcess(outside(program, [plan.command, ...process.args], spec.memoryBytes), {
    given: [inside.map((argument) => `${argument}\0`).join(""), withoutKeys()],
  });
  const brokenLimit = watchLimits({
    child,
    spec,
    own: ownProcesses,
    countsChild: false,
    besides: memoryFileBytes(child.pid, plan.mounts),
  });
  return new ConfinedProgram(child, {
    brokenLimit,
    cleanUp: namespaceEnd(child),
    signalInside: (signal) => signalDescendants(child.pid, signal),
  });
}

/** A zero ends an argument, and what came behind it in a variable would be arguments of bubblewrap. */
function zeroInArgument(): McpvalsError {
  return new McpvalsError(
    "server/spawn-failed",
    "a variable or a path of a confined program has a zero byte",
  );
}

/**
 * The command that becomes bubblewrap. Nothing of the program's environment is in bubblewrap's own, where a library to be
 * loaded would be loaded outside; the variables that mark our processes are taken away, since its environment can be read
 * inside.
 */
function outside(program: string, command: readonly string[], memoryBytes: number): ProcessSpec {
  const kilobytes = Math.ceil((memoryBytes + dataRoom) / 1024);
  const script = 'ulimit -c 0; ulimit -d "$1" 2>/dev/null; shift; exec "$@"';
  const clean = ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", program, ...fromFiles, "--", ...command];
  return {
    command: "/bin/sh",
    args: ["-c", script, "sandbox", String(kilobytes), ...clean],
    env: { PATH: "/usr/bin:/bin" },
    cwd: "/",
  };
}
