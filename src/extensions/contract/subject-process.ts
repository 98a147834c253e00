import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionPhase } from "../../core/formats/extension/manifest.ts";
import type { OperationContext } from "../../core/formats/extension/protocol.ts";
import { defaultSandbox } from "../../core/formats/model.ts";
import type { EventBody } from "../../core/trace/events.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { processLister } from "../../process/list-processes.ts";
import { ProgramOutput } from "../../process/program-output.ts";
import { spawnProcess } from "../../process/spawn.ts";
import { noSandbox } from "../../sandbox/sandboxes.ts";
import type { ExtensionProcess, ProcessStart } from "../host/extension-process.ts";
import type { Faults, Subject } from "./contract-report.ts";

/** Marks the environment of a program, so that the processes that it leaves behind can be found. */
const markerName = "MCPVALS_CONTRACT";
/** How long `ps` may take, in milliseconds. */
const psMs = 2000;

/** How the host starts the program that is tried; what it records becomes faults. */
export function startOf(
  { command, args, cwd, env, config }: Subject,
  faults: Faults,
): Omit<ProcessStart, "protocol"> & { readonly marker: string; readonly args: readonly string[] } {
  const alias = basename(args.find((arg) => !arg.startsWith("-")) ?? command);
  const marker = randomUUID();
  return {
    extension: {
      spec: { alias, package: command, dir: cwd, config, env: {}, sandbox: defaultSandbox },
      resolved: {
        package: command,
        ref: { kind: "path", name: command, path: command },
        folder: cwd,
        program: command,
      },
      sandbox: noSandbox,
    },
    place: { cwd, env: { ...env, [markerName]: marker }, read: [], write: [] },
    args,
    emit: (event) => {
      addOutputFault(event, faults);
      return 0;
    },
    marker,
  };
}

function addOutputFault(event: EventBody, faults: Faults): void {
  if (event.type === "extension.invalid_output") {
    const isLog = event.text.startsWith("{") && /^[^\n]*"method"\s*:\s*"log"[^\n]*$/.test(event.text);
    if (isLog)
      faults.add(
        "logs",
        `a log needs a message and a level, one of debug, info, warn, error: ${shown(event.text)}`,
      );
    else faults.add("stdout", `unexpected output: ${shown(event.text)}`);
  } else if (event.type === "extension.output_omitted" && event.stream === "log") {
    faults.add("logs", `${event.count} logs over the limit of one process were not recorded`);
  }
}

/** The beginning of a text, in one line. */
export function shown(text: string): string {
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text);
}

/** Adds a fault when a program that has ended by itself left processes behind. */
export async function checkLeftovers(
  program: ExtensionProcess,
  { marker, place }: ReturnType<typeof startOf>,
  faults: Faults,
): Promise<void> {
  const { stdout } = program;
  const isHeld = !stdout.closed && !stdout.readableEnded;
  if (program.exit === undefined || (!isHeld && (await program.release()))) return;
  const lister = processLister();
  const left = (await lister.list()).filter(
    ({ pid, group }) =>
      pid !== program.pid &&
      (group === program.pid || lister.carries(pid, `${markerName}=${marker}`) === true),
  );
  if (left.length === 0 && !isHeld) return;
  const pids = left.map(({ pid }) => String(pid));
  const who = pids.length === 0 ? "a process" : await describeProcesses(pids, place.env["PATH"]);
  faults.add("leftovers", `outlived the program${isHeld ? ", and holds its stdout" : ""}: ${who}`);
}

/** Processes with their commands, or only their numbers where `ps` does not work. */
async function describeProcesses(pids: readonly string[], path: string | undefined): Promise<string> {
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
    await settlesWithin(ps.exited, psMs);
    await output.settle(100);
    await ps.stop({ stdinMs: 0, termMs: 0 });
    const lines = output.stdout.text.split("\n").map((line) => line.trim().slice(0, 200));
    return lines.filter((line) => line !== "").join("; ") || numbers;
  } catch {
    return numbers;
  }
}

/** Why the program cannot be used any more, for a verdict; faults that have a check of their own are added there too. */
export function problemOf(error: unknown, { signal }: Subject, faults: Faults): string {
  signal.throwIfAborted();
  if (!(error instanceof McpvalsError)) throw error;
  if (error.code === "extension/answer-too-large") faults.add("answer size", error.message);
  const { detail } = error.details;
  return detail === undefined
    ? error.message
    : `${error.message}; its output ends with: ${detail.slice(-1500)}`;
}

/** An operation that no extension has. */
export const unknownOperation = "mcpvals-no-such-operation";

/** The context of a call, as a host would give it. */
export function contextOf({ cwd }: Subject, phase: ExtensionPhase = "setup"): OperationContext {
  return { workdir: cwd, workspace: cwd, phase, env: {}, timeout: "30s" };
}
