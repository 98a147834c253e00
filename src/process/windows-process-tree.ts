import { execFile, execFileSync } from "node:child_process";
import type { ProcessTree, TreeRoot, TreeSignal } from "./process-tree.ts";

/**
 * A tree as `taskkill /T` sees it: descendants by parent number, for as long as the root lives. Windows has no signal that
 * asks a console program to end, so SIGTERM does nothing and the caller goes on to SIGKILL.
 */
export class WindowsProcessTree implements ProcessTree {
  readonly #root: TreeRoot;

  constructor(root: TreeRoot) {
    this.#root = root;
  }

  survey(): Promise<number> {
    return Promise.resolve(this.#root.hasExited() ? 0 : 1);
  }

  async signal(signal: TreeSignal): Promise<void> {
    if (signal !== "SIGKILL" || this.#root.hasExited()) return;
    await new Promise<void>((resolve) => {
      // The callback's error says that the process has gone already, which is what is wanted.
      execFile("taskkill", this.#arguments(), { windowsHide: true, timeout: 5000 }, () => resolve());
    });
  }

  killNow(): void {
    if (this.#root.hasExited()) return;
    try {
      execFileSync("taskkill", this.#arguments(), { windowsHide: true, timeout: 5000, stdio: "ignore" });
    } catch {
      // It has gone already.
    }
  }

  #arguments(): string[] {
    return ["/PID", String(this.#root.pid), "/T", "/F"];
  }
}
