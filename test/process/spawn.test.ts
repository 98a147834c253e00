import { existsSync, globSync, mkdtempSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { devNull, tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { processMarkerName, runMarker, runMarkerName } from "../../src/process/watchdog.ts";
import { spawnProcess } from "../../src/process/spawn.ts";
import { path, start } from "./support.ts";

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "mcpvals-spawn-"));
});

afterAll(() => rmSync(folder, { recursive: true }));

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

  it.skipIf(process.platform !== "linux")("keeps no file open of what it gives to a program", async () => {
    const openFiles = (): number => {
      const links = globSync("/proc/self/fd/*").map((link) => {
        return existsSync(link) ? readlinkSync(link) : "";
      });
      return links.filter((file) => file === devNull).length;
    };
    // The first start opens a file for all.
    await (await start("true")).stop();
    const before = openFiles();
    const spec = { command: "sh", args: ["-c", "cat <&3"], env: { PATH: path }, cwd: folder };
    const child = await spawnProcess(spec, { given: ["secret"] });
    expect(openFiles()).toBe(before);
    expect(await text(child.stdout)).toBe("secret");
    await child.stop();
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
  const split = /^command is one program without arguments: .* into args\./;

  beforeAll(() => {
    writeFileSync(join(folder, "script"), "#!/no/such/interpreter\n", { mode: 0o755 });
    writeFileSync(join(folder, "plain.txt"), "echo hello\n", { mode: 0o644 });
  });

  it.each<[string, string, RegExp, { readonly args?: string[]; readonly cwd?: string }?]>([
    ["no-such-program", "command not found: no-such-program", /PATH/],
    ["./no-such-program", "command not found: ./no-such-program", /looked for from .*mcpvals-spawn-/],
    ["node server.mjs", "command not found: node server.mjs", split],
    ["no-such-program x", "command not found: no-such-program x", split],
    ["/no/such/program server.mjs", "command not found: /no/such/program server.mjs", split],
    ["./script", "the interpreter of ./script was not found", /first line/],
    ["./plain.txt", "not executable: ./plain.txt", /chmod \+x/],
    ["sh", "cwd does not exist: /no/such/folder", /exists/, { cwd: "/no/such/folder" }],
    ["sh", "cwd is not a folder: /dev/null", /exists/, { cwd: "/dev/null" }],
    ["sh", "cannot start sh: ", /terminal/, { args: ["a\0b"] }],
  ])("%s: %s", async (command, message, hint, more = {}) => {
    const spec = { command, args: [], env: { PATH: path }, cwd: folder, ...more };
    await expect(spawnProcess(spec)).rejects.toMatchObject({
      code: "server/spawn-failed",
      message: expect.stringContaining(message),
      details: { hint: expect.stringMatching(hint) },
      cause: expect.any(Error),
    });
  });
});
