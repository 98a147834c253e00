import type { Reporter, ReporterOutput, RunEnd } from "../core/report/reporter.ts";
import type { RunResult } from "../core/report/result.ts";
import { createPieceWriter } from "./format/piece-writer.ts";

/** Writes the result document at the end, pretty-printed, and nothing else; in pieces, however large it is. */
export function jsonReporter(output: ReporterOutput): Reporter {
  return {
    onRunEnd({ result }: RunEnd) {
      const writer = createPieceWriter(output);
      for (const piece of resultPieces(result)) writer.write(piece);
      writer.flush();
    },
  };
}

/** What `JSON.stringify(result, null, 2)` gives, with a final line break, one trial at a time. */
function* resultPieces(result: RunResult): Generator<string> {
  let before = "{\n";
  for (const [key, value] of Object.entries(result)) {
    if (value === undefined) continue;
    yield `${before}  ${JSON.stringify(key)}: `;
    if (key === "trials") yield* listPieces(result.trials);
    else yield indented(value, "  ");
    before = ",\n";
  }
  yield "\n}\n";
}

function* listPieces(items: readonly unknown[]): Generator<string> {
  if (items.length === 0) {
    yield "[]";
    return;
  }
  let before = "[\n";
  for (const item of items) {
    yield `${before}    ${indented(item, "    ")}`;
    before = ",\n";
  }
  yield "\n  ]";
}

/** Pretty JSON for a deeper place; line breaks inside strings are escaped, so every one found is layout. */
function indented(value: unknown, indent: string): string {
  return JSON.stringify(value, null, 2).replaceAll("\n", `\n${indent}`);
}
