import { processLister } from "./list-processes.ts";

/** A process that can be told from a later one with the same number, as far as the system allows. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Absent where it cannot be had cheaply. */
  readonly started?: number;
}

/** Who this process is. */
export function ownIdentity(): ProcessIdentity {
  const started = processLister().startOf(process.pid);
  return { pid: process.pid, ...(started === undefined ? {} : { started }) };
}

/** Whether another process than this one lives that may be the one that is meant. */
export function livesElsewhere({ pid, started }: ProcessIdentity): boolean {
  if (pid === process.pid || !answers(pid)) return false;
  const found = processLister().startOf(pid);
  return found === undefined || started === undefined || found === started;
}

function answers(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
