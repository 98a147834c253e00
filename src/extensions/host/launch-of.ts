import { extname } from "node:path";
import type { ResolvedExtension } from "../resolve/extension-resolver.ts";

/** Endings of programs that Node runs. */
const nodeEndings = new Set([".js", ".mjs", ".cjs", ".ts", ".mts"]);

/** How an extension's program is started; further arguments come after these. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
}

/** A program of JavaScript or TypeScript is run by the Node that runs us, any other by itself. */
export function launchOf({ program }: Pick<ResolvedExtension, "program">): Launch {
  return nodeEndings.has(extname(program).toLowerCase())
    ? { command: process.execPath, args: [program] }
    : { command: program, args: [] };
}
