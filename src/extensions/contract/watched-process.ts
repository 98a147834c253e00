import { randomUUID } from "node:crypto";
import { McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionProtocol } from "../../core/formats/extension/manifest.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { processLister } from "../../process/list-processes.ts";
import { ProgramOutput, TextTail } from "../../process/program-output.ts";
import { type ManagedProcess, type ProcessExit, spawnProcess } from "../../process/spawn.ts";
import { closed } from "../../process/process-tree.ts";
import { type ContractVerdict, fail, type Finding, pass, skip, type Subject } from "./contract-report.ts";

/** How long what a program started may take to end after it, in milliseconds. */
const settleMs = 400;

/** A process of the program that is tried. To be finished, whatever happens. */
export class WatchedProcess {
  readonly #subject: Subject;
  readonly #process: ManagedProcess;
  readonly #leftovers: Leftovers;
  readonly #stderr = new TextTail();

  /** Starts the program. Throws McpvalsError `server/spawn-failed`. */
  static async start(subject: Subject, more: readonly string[] = []): Promise<WatchedProcess> {
    subject.signal.throwIfAborted();
    const leftovers = new Leftovers();
    const { command, args, cwd, env } = subject;
    const process = await spawnProcess({
      command,
      args: [...args, ...more],
      cwd,
      env: { ...env, ...leftovers.env },
    });
    return new WatchedProcess(subject, process, leftovers);
  }

  constructor(subject: Subject, process: ManagedProcess, leftovers: Leftovers) {
    this.#subject = subject;
    this.#process = process;
    this.#leftovers = leftovers;
    process.stderr.on("data", (chunk: Buffer) => this.#stderr.push(chunk));
  }

  get stdin(): ManagedProcess["stdin"] {
    return this.#process.stdin;
  }

  get stdout(): ManagedProcess["stdout"] {
    return this.#process.stdout;
  }

  get stderr(): ManagedProcess["stderr"] {
    return this.#process.stderr;
  }

  get exited(): Promise<ProcessExit> {
    return this.#process.exited;
  }

  get exit(): ProcessExit | undefined {
    return this.#process.exit;
  }

  /** `ended with exit code 3`; undefined as long as it lives. */
  get howItEnded(): string | undefined {
    if (this.exit === undefined) return undefined;
    const { exitCode, signal } = this.exit;
    return exitCode === null ? `was ended by ${String(signal)}` : `ended with exit code ${exitCode}`;
  }

  /** The end of stderr, to be put behind a sentence; empty when there is nothing. */
  get stderrTail(): string {
    return this.#stderr.text === undefined ? "" : `; stderr ends with: ${this.#stderr.text.slice(-1500)}`;
  }

  /** Ends it at once, with everything that it started; what was left then is no fault. Never throws. */
  async kill(): Promise<void> {
    await this.#process.stop({ stdinMs: 0, termMs: 0 });
  }

  /** Looks for what the program, which has ended by itself, has left; then ends that. Never throws. */
  async finish(faults: Faults): Promise<void> {
    if (this.exit !== undefined && !(await this.#isGone())) await this.#tellLeftovers(faults);
    await this.#process.stop({ stdinMs: 0, termMs: 300 });
  }

  async #isGone(): Promise<boolean> {
    const { stdout, stderr } = this.#process;
    const pipes = settlesWithin(Promise.all([closed(stdout), closed(stderr)]), settleMs);
    return (await pipes) && (await this.#process.release());
  }

  async #tellLeftovers(faults: Faults): Promise<void> {
    const pids = await this.#leftovers.find(this.#process.pid);
    const holds = !this.#process.stdout.closed && !this.#process.stdout.readableEnded;
    if (pids.length === 0 && !holds) return;
    const who = pids.length === 0 ? "a process" : await nameProcesses(pids, this.#subject.env["PATH"]);
    const held = holds ? ", and holds its stdout" : "";
    faults.add("leftovers", `what the program started lives on after it${held}: ${who}`);
  }
}

/** Why a program could not be started, for a verdict. Throws what is no such reason. */
export function startProblem(error: unknown): string {
  if (error instanceof McpvalsError) return `the program could not be started: ${error.message}`;
  throw error;
}

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
async function nameProcesses(pids: readonly number[], path: string | undefined): Promise<string> {
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

/** What must not happen whatever is asked; each is a check of its own, with what it says when nothing happened. */
const always = {
  stdout: "nothing but messages on stdout",
  "unfinished line": "every line had its end",
  logs: "logs are notifications, and not too many",
  "answer size": "no answer over 10 MB",
  "answers once": "every request was answered once",
  leftovers: "nothing that it started lived on",
} as const;

export type FaultName = keyof typeof always;

/** Faults of one shot, where there are neither lines nor logs. */
const oneShotNames: readonly FaultName[] = ["stdout", "answer size", "leftovers"];
/** Told of the faults of one kind. */
const mostTold = 3;

/** Collects what a program does wrong on the side, over all of its processes. */
export class Faults {
  readonly #found = new Map<FaultName, Found>();

  add(name: FaultName, message: string): void {
    const { told, more } = this.#found.get(name) ?? { told: [], more: 0 };
    if (told.includes(message)) return;
    // A program that writes without end has endless faults.
    const isFull = told.length === mostTold;
    this.#found.set(name, isFull ? { told, more: more + 1 } : { told: [...told, message], more });
  }

  /** `answered`: whether the program ever did; else that nothing was wrong says nothing. */
  verdicts(protocol: ExtensionProtocol, answered: boolean): readonly ContractVerdict[] {
    const names = protocol === "one-shot" ? oneShotNames : (Object.keys(always) as FaultName[]);
    return names.map((name) => {
      const found = this.#found.get(name);
      return { name, protocol, ...(found === undefined ? without(name, answered) : fail(textOf(found))) };
    });
  }
}

function without(name: FaultName, answered: boolean): Finding {
  return answered ? pass(always[name]) : skip("the program never answered");
}

/** Faults of one kind: the first of them, and how many there are besides. */
interface Found {
  readonly told: readonly string[];
  readonly more: number;
}

function textOf({ told, more }: Found): string {
  return told.join("; ") + (more > 0 ? `; and ${more} more` : "");
}
