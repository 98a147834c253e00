import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { builtMain, root } from "../test/support/cli.ts";
import { inTurn, processTime, type Row } from "./measure.ts";

/** The tools of `examples/unsafe-server`. */
const unsafeTools = 23;

/**
 * A check of the everything server, the whole process, against a bare SDK client that lists what the server offers; and a check of the security of a
 * server that starts quickly.
 */
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
    const unsafe = [process.execPath, join(root, "examples/unsafe-server/server.mjs")];
    const security = await processTime(
      process.execPath,
      [builtMain, "check", "--security", "--", ...unsafe],
      {
        cwd,
        exitCode: 1,
      },
    );
    const ofTwenty = (security / unsafeTools) * 20;
    return [
      {
        name: "mcpvals check, whole process",
        measured: `${(ours / 1000).toFixed(1)} s`,
        floor: `bare SDK client ${(floor / 1000).toFixed(1)} s`,
        target: "under 10 s",
        holds: ours < 10_000,
      },
      {
        name: `mcpvals check --security of ${unsafeTools} tools`,
        measured: `${(security / 1000).toFixed(1)} s (${(ofTwenty / 1000).toFixed(1)} s for 20 tools)`,
        floor: "-",
        target: "under 60 s for 20 tools",
        holds: ofTwenty < 60_000,
      },
    ];
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}
