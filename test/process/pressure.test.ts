import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";

interface Pressed {
  readonly process: ChildProcessWithoutNullStreams;
  readonly lines: Interface;
}

/**
 * Runs a program over the sources in a process of its own that may have few descriptors; `fill()` takes the rest of
 * them.
 */
function runPressed(body: string): Pressed {
  const source = (name: string): string =>
    JSON.stringify(new URL(`../../src/process/${name}.ts`, import.meta.url));
  const program = `
    import { openSync } from "node:fs";
    import { once } from "node:events";
    import { spawnProcess } from ${source("spawn")};
    import { guardUndo, runMarker } from ${source("watchdog")};
    const fill = () => {
      try { for (;;) openSync("/dev/null"); } catch {}
    };
    const start = (script) => spawnProcess({ command: "/bin/sh", args: ["-c", script], env: { PATH: process.env.PATH }, cwd: "/" });
    ${body}
  `;
  const script = 'ulimit -n 100; exec "$0" --input-type=module -e "$1"';
  const child = spawn("/bin/sh", ["-c", script, process.execPath, program]);
  onTestFinished(() => void child.kill("SIGKILL"));
  child.stderr.pipe(process.stderr);
  return { process: child, lines: createInterface(child.stdout) };
}

async function nextLine({ lines }: Pressed): Promise<string> {
  const [line] = (await once(lines, "line")) as [string];
  return line;
}

describe.runIf(process.platform === "linux")("with no file descriptor left", () => {
  it("a program that cannot be started is told from one that is broken", async () => {
    const run = runPressed(`
      fill();
      const error = await start("exit 0").catch((error) => error);
      console.log(JSON.stringify([error.code, error.message, error.details?.hint]));
    `);
    expect(JSON.parse(await nextLine(run))).toEqual([
      "server/spawn-failed",
      "cannot start /bin/sh: too many files are open (EMFILE)",
      "Run fewer trials at once (concurrency), or raise the limit (ulimit -n).",
    ]);
  });

  it("files are changed without the watchdog", async () => {
    const run = runPressed(`
      fill();
      const guard = guardUndo([{ kind: "remove-file", path: "/nothing/there" }]);
      guard.release();
      console.log("guarded");
    `);
    expect(await nextLine(run)).toBe("guarded");
  });
});
