import { jsonPieces } from "../core/report/json-pieces.ts";
import type { Reporter, ReporterOutput, RunEnd } from "../core/report/reporter.ts";
import { createPieceWriter } from "./format/text.ts";

/** Writes the result document at the end, pretty-printed, and nothing else; in pieces, however large it is. */
export function jsonReporter(output: ReporterOutput): Reporter {
  return {
    onRunEnd({ result }: RunEnd) {
      const writer = createPieceWriter(output);
      for (const piece of jsonPieces(result)) writer.write(piece);
      writer.flush();
    },
  };
}
