import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { defaultSandbox, type SandboxSpec } from "../../src/model/sandbox.ts";
import { startServer } from "../../src/servers/server-pool.ts";
import { checkSandboxes } from "../../src/servers/stdio/server-process.ts";
import { sandboxOf } from "../../src/sandbox/sandboxes.ts";
import { fixtureServer } from "../process/support.ts";
import { freshFolder, whyNot } from "../sandbox/support.ts";
import { callOptions, createRecord, type Record, rejection, stdioSpec } from "./support.ts";

const signal = new AbortController().signal;
const reason = process.platform === "linux" ? await whyNot(sandboxOf("process")) : "only tried on Linux";
const note = reason === undefined ? "" : ` (SKIPPED: ${reason})`;

interface Seen {
  readonly secret: string;
  readonly listed: string;
  readonly own: string;
  readonly network: string;
}

/** A server that first tries what its sandbox may deny, and says on stderr how that went. */
async function tried(
  sandbox?: (other: string) => Partial<SandboxSpec>,
): Promise<{ seen: Seen; record: Record; out: string }> {
  const [own, other] = [await freshFolder(), await freshFolder()];
  for (const name of ["listed", "out"]) mkdirSync(join(other, name));
  for (const path of [join(own, "a"), join(other, "secret"), join(other, "listed", "a")])
    writeFileSync(path, "text");
  const listener = createServer((socket) => socket.end()).listen(0, "127.0.0.1");
  onTestFinished(() => void listener.close());
  await new Promise((resolve) => listener.once("listening", resolve));
  const { port } = listener.address() as { port: number };
  const script = `
    const { readFileSync, writeFileSync } = require("node:fs");
    const attempt = (act) => { try { act(); return "yes"; } catch (error) { return error.code; } };
    const found = {
      secret: attempt(() => readFileSync(${JSON.stringify(join(other, "secret"))})),
      listed: attempt(() => readFileSync(${JSON.stringify(join(other, "listed", "a"))})),
      own: attempt(() => writeFileSync("a", "changed")),
    };
    attempt(() => writeFileSync(${JSON.stringify(join(other, "out", "b"))}, "written"));
    const socket = require("node:net").connect(${port}, "127.0.0.1");
    const tell = (network) => { console.error(JSON.stringify({ ...found, network })); import(${JSON.stringify(pathToFileURL(fixtureServer).href)}); };
    socket.once("connect", () => tell("yes"));
    socket.once("error", (error) => tell(error.code));`;
  const record = createRecord();
  const confined = {
    ...defaultSandbox,
    kind: "process",
    read: [process.cwd()],
    memoryBytes: 2 ** 30,
  } as const;
  const spec = stdioSpec(process.execPath, ["-e", script], {
    cwd: own,
    ...(sandbox === undefined ? {} : { sandbox: { ...confined, ...sandbox(other) } }),
  });
  const session = await startServer("s", spec, { emit: record.emit, signal, version: "1" });
  const outcome = await session.callTool("echo", { message: "hi" }, callOptions());
  expect(JSON.stringify(outcome)).toContain("hi");
  await session.stop();
  const told = record.of("server.stderr").map(({ text }) => text);
  return { seen: JSON.parse(told.join("")) as Seen, record, out: join(other, "out", "b") };
}

describe.skipIf(reason !== undefined)(`a server in a sandbox${note}`, () => {
  it("has no network, and reads and writes only the listed paths", async () => {
    const { seen, record, out } = await tried((other) => ({
      read: [process.cwd(), join(other, "listed")],
      write: [join(other, "out")],
    }));
    expect(seen).toEqual({ secret: "ENOENT", listed: "yes", own: "EROFS", network: "ECONNREFUSED" });
    expect(readFileSync(out, "utf8")).toBe("written");
    expect(record.of("server.started")).toMatchObject([{ sandbox: "process" }]);
    expect(record.of("server.stopped")).toMatchObject([{ by: "stdin" }]);
  });

  it("has the network of the machine where that is listed, and a folder that it may write", async () => {
    const { seen } = await tried(() => ({ network: "host", write: ["."] }));
    expect(seen).toMatchObject({ own: "yes", network: "yes", secret: "ENOENT", listed: "ENOENT" });
  });

  it("is not used unless it is configured", async () => {
    const { seen, record } = await tried();
    expect(seen).toEqual({ secret: "yes", listed: "yes", own: "yes", network: "yes" });
    expect(record.of("server.started")[0]).not.toHaveProperty("sandbox");
  });

  it("names the program that is not visible in it", async () => {
    const folder = await freshFolder();
    const program = join(folder, "tool");
    writeFileSync(program, "#!/usr/bin/env node\n", { mode: 0o755 });
    const spec = stdioSpec("tool", [], {
      cwd: await freshFolder(),
      env: { PATH: `${folder}:/usr/bin` },
      sandbox: { ...defaultSandbox, kind: "process" },
    });
    const starting = startServer("s", spec, { emit: createRecord().emit, signal, version: "1" });
    expect(await rejection(starting)).toMatchObject({
      code: "server/spawn-failed",
      message: `server "s" could not be started: the program ${program} is not visible in the sandbox`,
      details: { hint: expect.stringContaining("read: [../node_modules]") as string },
    });
  });

  it("is lost with the limit that it exceeded", async () => {
    const sandbox = { ...defaultSandbox, kind: "process" as const, read: [process.cwd()], processes: 1 };
    const script = `const { spawn } = require("node:child_process");
      for (let i = 0; i < 8; i += 1) spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
      import(${JSON.stringify(pathToFileURL(fixtureServer).href)});`;
    const spec = stdioSpec(process.execPath, ["-e", script], { sandbox });
    const { emit } = createRecord();
    const session = await startServer("s", spec, { emit, signal, version: "1" }).catch(
      (error: unknown) => error,
    );
    const lost: unknown =
      session instanceof Error
        ? session
        : await new Promise((resolve) => {
            const { lost: end } = session as { readonly lost: AbortSignal };
            if (end.aborted) resolve(end.reason);
            end.addEventListener("abort", () => resolve(end.reason));
          });
    expect(lost).toMatchObject({
      code: "server/exited",
      message: expect.stringMatching(/server "s" broke a limit of its sandbox: .*processes/) as string,
    });
  });
});

it("an unavailable sandbox is reported before anything starts", async () => {
  const sandbox: SandboxSpec = { ...defaultSandbox, kind: "docker", image: "i", runtime: ["no-such-engine"] };
  const servers = [stdioSpec("never-started", []), stdioSpec("never-started", [], { sandbox })];
  expect(await rejection(checkSandboxes(servers, signal))).toMatchObject({ code: "sandbox/unavailable" });
});
