import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";

let spare: number | undefined;

/** Holds one file descriptor back for {@link withSpareFile}. Does nothing when there is none left. */
export function keepSpareFile(): void {
  if (spare !== undefined) return;
  try {
    spare = openSync(devNull, "r");
  } catch {
    spare = undefined;
  }
}

/**
 * Does what opens one file at a time, with the descriptor that was held back when no other is left. Throws what `work`
 * throws.
 */
export function withSpareFile<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (spare === undefined || !isOutOfFiles(error)) throw error;
    closeSync(spare);
    spare = undefined;
    try {
      return work();
    } finally {
      keepSpareFile();
    }
  }
}

/** Whether an error says that this process, or the machine, has as many files open as it may. */
export function isOutOfFiles(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "EMFILE" || error.code === "ENFILE");
}
