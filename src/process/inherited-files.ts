import { readdirSync, readFileSync } from "node:fs";

/** `O_CLOEXEC` in what /proc says of a file that is open; Linux writes it in octal. */
const closedOnExec = 0o2000000;

let found: readonly number[] | undefined;

/**
 * Numbers of the files above stderr that whoever started this process left open, so that every program it starts has them
 * too, a folder or a secret as it may be. Node closes its own. Looked for once; none where /proc does not tell.
 */
export function inheritedFiles(): readonly number[] {
  found ??= look();
  return found;
}

function look(): readonly number[] {
  try {
    return readdirSync("/proc/self/fd").map(Number).filter(isInherited);
  } catch {
    return []; // no /proc here
  }
}

function isInherited(number: number): boolean {
  if (number <= 2) return false;
  try {
    const [, flags = "0"] =
      /^flags:\s+([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${number}`, "latin1")) ?? [];
    return (Number.parseInt(flags, 8) & closedOnExec) === 0;
  } catch {
    return false; // closed meanwhile, such as the one of this look
  }
}
