import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { builtMain, root } from "../test/support/cli.ts";
import { inTurn, processTime, type Row } from "./measure.ts";

/** A check of the everything server, the whole process, against a bare SDK client that lists what the server offers. */
export async function checkTime(): Promise<readonly Row[]> {
  const cwd = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  const server = join(root, "node_modules/@modelcontextprotocol/server-everything/dist/index.js");
  const client = join(root, "bench/bare-client.mjs");
  try {
    const { ours, floor } = await inTurn(
      3,
      () => processTime(process.execPath, [builtMain, "check", "--", process.execPath, server], { cwd }),
      () => processTime(process.execPath, [client, "list", process.execPath, server], { cwd: root }),
    );
    return [
      {
        name: "mcpvals check, whole process",
        measured: `${(ours / 1000).toFixed(1)} s`,
        floor: `bare SDK client ${(floor / 1000).toFixed(1)} s`,
        target: "under 10 s",
        holds: ours < 10_000,
      },
    ];
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}
