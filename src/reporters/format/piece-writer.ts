import type { ReporterOutput } from "../../core/report/reporter.ts";

const pieceCharacters = 65_536;

/** Gathers small texts and writes them in pieces of a good size, never as one giant string. */
export interface PieceWriter {
  write(text: string): void;
  /** Writes what is left. */
  flush(): void;
}

/** A writer of pieces of about 64 Ki characters. */
export function createPieceWriter(output: Pick<ReporterOutput, "write">): PieceWriter {
  let pending: string[] = [];
  let length = 0;
  const flush = (): void => {
    if (length > 0) output.write(pending.join(""));
    pending = [];
    length = 0;
  };
  return {
    write(text) {
      pending.push(text);
      length += text.length;
      if (length >= pieceCharacters) flush();
    },
    flush,
  };
}
