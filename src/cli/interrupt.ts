import { McpvalsError } from "../core/errors/error.ts";
import { killAllNow } from "../process/process-tree.ts";
import { writeError } from "./terminal.ts";

/** Signals that come closer together are one, sent both to this process and to its group, as `timeout` does. */
const sameMs = 100;

/**
 * A signal that aborts on Ctrl-C, SIGTERM and SIGHUP. The first asks the run to end in order: cleaned up, servers stopped,
 * results written. The second ends everything at once. `output` is the folder that keeps the runs, where it is not the usual one.
 */
export function abortOnInterrupt(output?: string): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  let first = 0;
  const onSignal = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) {
      if (performance.now() - first < sameMs) return;
      killAllNow();
      const place = output === undefined ? "" : ` --output ${output}`;
      writeError(`\nEnded at once. What had finished is kept: mcpvals show latest${place}`);
      process.exit(130);
    }
    first = performance.now();
    writeError(
      "\nInterrupted: cleaning up, stopping servers and writing results. Once more ends everything at once.",
    );
    controller.abort(new McpvalsError("run/interrupted", `received ${name}`));
  };
  const signals: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const name of signals) process.on(name, onSignal);
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      for (const name of signals) process.off(name, onSignal);
    },
  };
}
