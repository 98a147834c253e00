import { renameSync, rmdirSync, rmSync } from "node:fs";

/** A change of the disk that can be taken back, or that has been already. All paths are absolute. */
export type UndoStep =
  /** What is at `from` replaces what is at `to`; nothing is done when nothing is at `from`. */
  | { readonly kind: "move-back"; readonly from: string; readonly to: string }
  | { readonly kind: "remove-file"; readonly path: string }
  /** Only when it is empty. */
  | { readonly kind: "remove-folder"; readonly path: string };

/** Takes changes back in the order given; what has been taken back already stays so. Throws what the system throws. */
export function undo(steps: readonly UndoStep[]): void {
  for (const step of steps) undoStep(step);
}

function undoStep(step: UndoStep): void {
  switch (step.kind) {
    case "move-back":
      return unless(["ENOENT"], () => renameSync(step.from, step.to));
    case "remove-file":
      return unless(["ENOENT", "ENOTDIR"], () => rmSync(step.path));
    case "remove-folder":
      return unless(["ENOENT", "ENOTEMPTY", "EEXIST", "ENOTDIR"], () => rmdirSync(step.path));
  }
}

function unless(codes: readonly string[], change: () => void): void {
  try {
    change();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (!codes.includes(code)) throw error;
  }
}

/** The same for a POSIX shell; undefined when a path has a line break, which the shell could not be told. */
export function undoScript(steps: readonly UndoStep[]): string | undefined {
  const script = steps.map(stepScript).join("; ");
  return /[\n\r\0]/.test(script) ? undefined : script;
}

function stepScript(step: UndoStep): string {
  switch (step.kind) {
    case "move-back": {
      const from = quote(step.from);
      const to = quote(step.to);
      // mv would move it into a folder.
      const clear = `[ ! -L ${to} ] || rm -f ${to}`;
      return `if [ -e ${from} ] || [ -L ${from} ]; then ${clear}; [ -d ${to} ] || mv -f ${from} ${to}; fi`;
    }
    case "remove-file":
      return `rm -f ${quote(step.path)}`;
    case "remove-folder":
      return `rmdir ${quote(step.path)}`;
  }
}

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
