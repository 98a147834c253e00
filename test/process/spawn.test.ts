import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/core/errors/error.ts";
import { processMarkerName, runMarker, runMarkerName } from "../../src/process/watchdog.ts";
import { spawnProcess } from "../../src/process/spawn.ts";
import { path, start } from "./support.ts";

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "mcpvals-spawn-"));
});

afterAll(() => rmSync(folder, { recursive: true }));

async function failure(spec: { command: string; args?: string[]; cwd?: string }): Promise<McpvalsError> {
  const env = { PATH: path };
  const error = await spawnProcess({ args: [], env, cwd: folder, ...spec }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof McpvalsError)) throw new Error(`no McpvalsError: ${String(error)}`);
  expect(error.code).toBe("server/spawn-failed");
  return error;
}

describe("spawnProcess", () => {
  it.skipIf(!existsSync("/bin/bash"))("starts bash without the files of a remote login", async () => {
    writeFileSync(join(folder, ".bashrc"), "echo from .bashrc");
    const env = { PATH: path, HOME: folder };
    const child = await spawnProcess({ command: "/bin/bash", args: ["-c", "echo done"], env, cwd: folder });
    expect(await text(child.stdout)).toBe("done\n");
    await child.stop();
  });

  it("starts a program with its arguments, folder and exactly its environment", async () => {
    const script =
      "process.stdout.write(JSON.stringify([process.env, process.cwd(), process.argv.slice(1)]))";
    const child = await spawnProcess({
      command: process.execPath,
      args: ["-e", script, "one two", "$HOME"],
      env: { ONLY: "this" },
      cwd: folder,
    });
    const [output, exit] = await Promise.all([text(child.stdout), child.exited]);
    await child.stop();
    const [env, cwd, args] = JSON.parse(output) as [Record<string, string>, string, string[]];
    expect(env).toEqual({
      SHLVL: "1",
      ONLY: "this",
      [runMarkerName]: runMarker,
      [processMarkerName]: expect.stringMatching(/^[-0-9a-f]{36}$/) as unknown,
    });
    expect([cwd, args]).toEqual([folder, ["one two", "$HOME"]]);
    expect([exit, child.exit]).toEqual([
      { exitCode: 0, signal: null },
      { exitCode: 0, signal: null },
    ]);
  });

  it("connects stdin, stdout and stderr", async () => {
    const child = await start("sh", "-c", 'read line; echo "out $line"; echo "err $line" >&2');
    child.stdin.write("hello\n");
    expect(await Promise.all([text(child.stdout), text(child.stderr)])).toEqual([
      "out hello\n",
      "err hello\n",
    ]);
  });

  it("tells a signal from an exit code", async () => {
    const child = await start("sh", "-c", "kill -9 $$");
    expect(await child.exited).toEqual({ exitCode: null, signal: "SIGKILL" });
  });

  it("finds programs on the PATH of the environment that it is given", async () => {
    writeFileSync(join(folder, "my-tool"), "#!/bin/sh\necho mine\n", { mode: 0o755 });
    const env = { PATH: `${folder}:${path}` };
    const child = await spawnProcess({ command: "my-tool", args: [], env, cwd: "/" });
    expect(await text(child.stdout)).toBe("mine\n");
    await child.stop();
  });
});

describe("what spawnProcess says when it fails", () => {
  it("a command that is not on the PATH", async () => {
    const error = await failure({ command: "no-such-program" });
    expect(error.message).toBe("command not found: no-such-program");
    expect(error.details.hint).toContain("PATH");
    expect(error.cause).toMatchObject({ code: "ENOENT" });
  });

  it("a path where nothing is", async () => {
    const error = await failure({ command: "./no-such-program" });
    expect(error.message).toBe("command not found: ./no-such-program");
    expect(error.details.hint).toContain(folder);
  });

  it.each(["node server.mjs", "no-such-program x", "/no/such/program server.mjs"])(
    "arguments in the command: %s",
    async (command) => {
      const error = await failure({ command });
      expect(error.message).toBe(`command not found: ${command}`);
      expect(error.details.hint).toMatch(/^command is one program without arguments: .* into args\./);
    },
  );

  it("a script whose interpreter is missing", async () => {
    const script = join(folder, "script");
    writeFileSync(script, "#!/no/such/interpreter\n", { mode: 0o755 });
    expect((await failure({ command: script })).message).toBe(`the interpreter of ${script} was not found`);
  });

  it("a file that may not be executed", async () => {
    const script = join(folder, "plain.txt");
    writeFileSync(script, "echo hello\n");
    chmodSync(script, 0o644);
    const error = await failure({ command: script });
    expect(error.message).toBe(`not executable: ${script}`);
    expect(error.details.hint).toContain("chmod +x");
  });

  it("a working folder that does not exist, although the command is fine", async () => {
    const cwd = join(folder, "missing");
    expect((await failure({ command: "sh", cwd })).message).toBe(`cwd does not exist: ${cwd}`);
  });

  it("a working folder that is a file", async () => {
    const cwd = join(folder, "file");
    writeFileSync(cwd, "");
    expect((await failure({ command: "sh", cwd })).message).toBe(`cwd is not a folder: ${cwd}`);
  });

  it("arguments that no system takes", async () => {
    const error = await failure({ command: "sh", args: ["a\0b"] });
    expect(error.message).toContain("cannot start sh");
  });
});
