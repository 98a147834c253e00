import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TraceEvent } from "../src/model/event.ts";
import { Journal } from "../src/store/journal.ts";

/** A real journal in a folder of its own, which `close` removes. */
export function openBenchJournal(): {
  append(event: TraceEvent, json: string): void;
  close(): Promise<void>;
} {
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  const journal = new Journal(folder);
  return {
    append: (event, json) => journal.append(event, json),
    async close() {
      await journal[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
