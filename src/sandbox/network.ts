import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { createInterface } from "node:readline";
import { McpvalsError } from "../base/error.ts";
import type { SandboxSpec } from "../model/sandbox.ts";
import { withDeadline } from "../process/deadline.ts";
import { findProgram } from "../process/environment.ts";
import { ProgramOutput } from "../process/program-output.ts";
import { type ProcessSpec, spawnProcess } from "../process/spawn.ts";
import { findBubblewrap } from "./bubblewrap.ts";

/** A network of its own, which sandboxes can join. Nothing leaves it. Disposing of it ends the program that answers there. */
export interface OwnNetwork extends AsyncDisposable {
  readonly namespaces: NonNullable<SandboxSpec["namespaces"]>;
  /** The lines that the program has written since the last call, without its id. */
  take(): readonly string[];
}

/** Where the programs are that set up a network; what is confined must not choose them. */
const env = { PATH: "/usr/sbin:/sbin:/usr/bin:/bin" };
const startMs = 10_000;

/**
 * Makes a network in which every address of IPv4 is one of this machine, so that a program answers at each. The program writes its id to
 * stdout once it does, and ends when its stdin is closed. It sees the files of this machine and cannot write them; what joins the network
 * gets none of its rights. Throws McpvalsError `sandbox/unavailable`, and the signal's reason.
 */
export async function openNetwork(
  { command, args }: Pick<ProcessSpec, "command" | "args">,
  signal: AbortSignal,
): Promise<OwnNetwork> {
  const [bubblewrap, ...missing] = await Promise.all([
    findBubblewrap(),
    ...needed.map(async ([name, from]) =>
      (await findProgram(name, { env, cwd: "/" })) === undefined ? `${name} (package ${from})` : [],
    ),
  ]);
  if (missing.flat().length > 0) throw unavailable(`${missing.flat().join(" and ")} is not installed`);
  const confining = [
    ["--unshare-user", "--unshare-net", "--unshare-ipc", "--new-session", "--die-with-parent"],
    ["--cap-drop", "ALL", "--cap-add", "CAP_NET_ADMIN", "--cap-add", "CAP_NET_BIND_SERVICE"],
    ["--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--"],
  ].flat();
  const script = 'ip route add local default dev lo && exec "$@"';
  const child = await spawnProcess({
    command: bubblewrap,
    args: [...confining, "/bin/sh", "-c", script, "network", command, ...args],
    env,
    cwd: "/",
  });
  const output = new ProgramOutput();
  const lines: string[] = [];
  const end = async (): Promise<void> => {
    output.stop();
    await child.stop();
  };
  try {
    const first = once(child.stdout, "data", { signal });
    output.attach(child);
    await withDeadline(() => Promise.race([first, child.exited]), {
      ms: startMs,
      signal,
      onTimeout: () => unavailable(`it took longer than ${startMs / 1000} seconds to start`),
    });
    await output.settle(0);
    const pid = Number.parseInt(output.stdout.text, 10);
    if (child.exit !== undefined || Number.isNaN(pid))
      throw unavailable(output.stderr.text.trim() || "the program that answers did not start");
    createInterface({ input: child.stdout }).on("line", (line) => void lines.push(line));
    // Held open, they stay the ones of this program, also when its id is that of another one.
    const [user, net] = [openSync(`/proc/${pid}/ns/user`, "r"), openSync(`/proc/${pid}/ns/net`, "r")];
    return {
      namespaces: { user: pathOf(user), net: pathOf(net) },
      take: () => lines.splice(0),
      async [Symbol.asyncDispose]() {
        closeSync(user);
        closeSync(net);
        await end();
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}

/** The path of an open file, for other processes. */
function pathOf(file: number): string {
  return `/proc/${process.pid}/fd/${file}`;
}

/** Programs that set up a network, and join it, each with the package of Debian that has it. */
const needed: readonly (readonly [program: string, from: string])[] = [
  ["ip", "iproute2"],
  ["nsenter", "util-linux"],
];

function unavailable(reason: string): McpvalsError {
  return new McpvalsError("sandbox/unavailable", `no network can be made in the sandbox: ${reason}`);
}
