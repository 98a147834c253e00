import { randomUUID } from "node:crypto";
import { settlesWithin } from "../../process/deadline.ts";
import { processLister } from "../../process/list-processes.ts";
import { ProgramOutput } from "../../process/program-output.ts";
import { spawnProcess } from "../../process/spawn.ts";

/** Stands in the environment of all that a program starts, so that it can be found. */
const markerName = "MCPVALS_CONTRACT";
/** How long naming processes may take, in milliseconds. */
const namingMs = 2000;

/** Finds what a program has left behind. */
export class Leftovers {
  readonly #marker: string = randomUUID();

  /** To be in the program's environment. */
  get env(): Readonly<Record<string, string>> {
    return { [markerName]: this.#marker };
  }

  /** Numbers of the processes that descend from the program, which had the number `root` and has ended. */
  async find(root: number): Promise<readonly number[]> {
    const lister = processLister();
    const all = await lister.list();
    const ours = all.filter(
      ({ pid, group }) => group === root || lister.carries(pid, `${markerName}=${this.#marker}`) === true,
    );
    return ours.map(({ pid }) => pid).filter((pid) => pid !== root);
  }
}

/** Processes as people know them: number and command, or only the number where the command cannot be had. */
export async function nameProcesses(pids: readonly number[], path: string | undefined): Promise<string> {
  const numbers = pids.join(", ");
  try {
    const ps = await spawnProcess({
      command: "ps",
      args: ["-o", "pid=,args=", "-p", pids.join(",")],
      env: path === undefined ? {} : { PATH: path },
      cwd: "/",
    });
    const output = new ProgramOutput(10_000);
    output.attach(ps);
    await settlesWithin(ps.exited, namingMs);
    await output.settle(100);
    await ps.stop({ stdinMs: 0, termMs: 0 });
    const lines = output.stdout.text.split("\n").map((line) => line.trim().slice(0, 200));
    return lines.filter((line) => line !== "").join("; ") || numbers;
  } catch {
    return numbers; // without `ps` the numbers have to do
  }
}
