import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { inTurn, processTime, type Row } from "./measure.ts";

const root = resolve(import.meta.dirname, "..");

/** One tool test on the everything server over stdio, the whole process, against a bare SDK client. */
export async function toolTestTime(): Promise<readonly Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  const server = join(root, "node_modules/@modelcontextprotocol/server-everything/dist/index.js");
  const config = join(folder, "mcp-eval.config.json");
  const suite = { name: "s", tests: [{ name: "echo", args: { message: "hello" }, expectedResult: "hello" }] };
  const spec = {
    server: { transport: "stdio", command: process.execPath, args: [server] },
    toolHealthSuites: [suite],
  };
  writeFileSync(config, JSON.stringify(spec));
  try {
    const { ours, floor, ratio } = await inTurn(
      15,
      () => processTime(process.execPath, [join(root, "dist/main.js"), "run", "-c", config], { cwd: folder }),
      () =>
        processTime(
          process.execPath,
          [join(root, "bench/bare-client.mjs"), "call", process.execPath, server],
          {
            cwd: root,
          },
        ),
    );
    return [
      {
        name: "one tool test, whole process",
        measured: `${ours.toFixed(0)} ms (${ratio.toFixed(3)}×)`,
        floor: `bare SDK client ${floor.toFixed(0)} ms`,
        target: "within 1.10×",
        holds: ratio <= 1.1,
      },
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
