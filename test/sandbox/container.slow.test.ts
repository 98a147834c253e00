import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { SandboxSpec } from "../../src/model/sandbox.ts";
import { sandboxOf } from "../../src/sandbox/sandboxes.ts";
import {
  Bench,
  commandLines,
  freshFolder,
  freshPlace,
  hostile,
  megabyte,
  type Place,
  spec,
  whyNot,
} from "./support.ts";

const sandbox = sandboxOf("docker");
const image = `localhost/mcpvals-sandbox-test-${process.pid}`;
/** Podman's storage for these tests, separate from that of the machine. */
const store = mkdtempSync(join(tmpdir(), "mcpvals-podman-"));
const storeOf = (name: string): string[] =>
  ["root", "runroot"].flatMap((kind) => [`--${kind}`, join(store, name, kind)]);
const older = "--runtime runc --cgroup-manager=cgroupfs --storage-driver=vfs run";
const limits = "--ulimit nofile=10000:10000 --ulimit nproc=10000:10000";
/** Ways to run containers; the last is for machines without systemd or with old control groups. */
const runtimes: readonly (readonly string[])[] = [
  ["docker"],
  ["podman", ...storeOf("plain")],
  ["podman", ...storeOf("runc"), ...`${older} ${limits}`.split(" ")],
];

interface Found {
  readonly wanted: SandboxSpec;
  readonly command: readonly string[];
}

/** The first command that works, with an image for it. */
async function findWay(): Promise<Found | string> {
  if (process.platform !== "linux")
    return "the test image contains programs of this machine, so it needs Linux";
  const reasons: string[] = [];
  for (const runtime of runtimes) {
    const wanted: SandboxSpec = { ...spec, kind: "docker", image, runtime };
    const end = runtime.indexOf("run");
    const command = end === -1 ? runtime : runtime.slice(0, end);
    try {
      makeImage(command);
    } catch (error) {
      reasons.push(`${runtime[0]}: ${error instanceof Error ? error.message.split("\n")[0] : String(error)}`);
      continue;
    }
    const reason = await whyNot(sandbox, wanted);
    if (reason === undefined) return { wanted, command };
    execFileSync(runtime[0] ?? "", [...command.slice(1), "rmi", "--force", image], { stdio: "pipe" });
    reasons.push(reason);
  }
  return reasons.join("; ");
}

const realNode = realpathSync(process.execPath);

/**
 * Builds an image with a shell, without a registry. Its node is a link to the mounted node of this machine: an image that
 * contains node is slow to build, and slow to start with some engines.
 */
function makeImage([program = "", ...args]: readonly string[]): void {
  execFileSync(program, [...args, "info"], { stdio: "pipe", timeout: 30_000 });
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-image-"));
  try {
    for (const name of ["bin", "usr/bin", "tmp", "proc", "sys", "dev", "etc"]) {
      mkdirSync(join(folder, name), { recursive: true });
    }
    symlinkSync(realNode, join(folder, "usr/bin/node"));
    putLibraries(folder, realNode);
    put(folder, realpathSync("/bin/sh"), "/bin/sh");
    put(folder, realpathSync("/bin/true"), "/bin/true");
    writeFileSync(join(folder, "etc/passwd"), "root:x:0:0:root:/:/bin/sh\n");
    const archive = join(folder, "..", `${image.split("/")[1]}.tar`);
    execFileSync("tar", ["-C", folder, "-cf", archive, "."], { stdio: "pipe" });
    execFileSync(program, [...args, "import", archive, image], { stdio: "pipe", timeout: 120_000 });
    rmSync(archive);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Copies a program with the libraries that it is linked with. */
function put(folder: string, program: string, at: string): void {
  cpSync(program, join(folder, at));
  putLibraries(folder, program);
}

function putLibraries(folder: string, program: string): void {
  const libraries = execFileSync("ldd", [program], { encoding: "utf8" }).match(/\/\S+(?= \()/g) ?? [];
  for (const library of libraries) {
    mkdirSync(join(folder, dirname(library)), { recursive: true });
    if (!existsSync(join(folder, library))) cpSync(realpathSync(library), join(folder, library));
  }
}

const way = await findWay();
if (typeof way === "string") console.warn(`SKIPPED: the sandbox docker cannot be tried here: ${way}`);
afterAll(() => rmSync(store, { recursive: true, force: true }));
const found: Found = typeof way === "string" ? { wanted: spec, command: [] } : way;
const named = typeof way === "string" ? ` (SKIPPED: ${way})` : "";

describe.skipIf(typeof way === "string")(`the docker sandbox${named}`, () => {
  const runtime = (...args: string[]): string => {
    const [program = "", ...before] = found.command;
    return execFileSync(program, [...before, ...args], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  };
  let place: Place;
  let bench: Bench;
  const node = process.execPath;
  const given = { spec: found.wanted, read: [realNode] };

  beforeEach(async () => {
    place = await freshPlace();
    bench = new Bench(sandbox, place);
  });

  afterAll(() => void runtime("rmi", "--force", image));

  it("can read its task and write its workspace, and nothing else", async () => {
    await writeFile(join(place.task, "there"), "before");
    const paths = [place.task, "/", "/usr", "/etc", place.workspace];
    expect(await bench.ask([node, hostile("write.mjs"), ...paths], given)).toEqual(
      ["write", "append", "remove", "mkdir", "link", "mode"].map((name) => `${name} ${place.workspace}`),
    );
    expect(await readFile(join(place.task, "there"), "utf8")).toBe("before");
    const home = await freshFolder(homedir());
    expect(await bench.ask([node, hostile("read.mjs"), home, join(place.task, "there")], given)).toEqual({
      [home]: { code: "ENOENT" },
      [join(place.task, "there")]: "before",
    });
  });

  it("runs a script by its shebang line", async () => {
    const program = join(place.task, "program");
    await writeFile(program, '#!/bin/sh\nread line\necho "$line $1"\n', { mode: 0o755 });
    const child = await bench.start([program, "an argument"], given);
    const said = new Promise<string>((resolve) =>
      child.stdout.once("data", (chunk: Buffer) => resolve(chunk.toString())),
    );
    child.stdin.end("hello\n");
    expect(await said).toBe("hello an argument\n");
    expect((await child.exited).exitCode).toBe(0);
    expect(await child.release()).toBe(true);
  });

  it("gets its environment variables, and none appears on a command line", async () => {
    const env = { NAMED: " named-value ", LINES: "one\ntwo-value", HASH: "#x", HOME: homedir() };
    const seen = (await bench.ask([node, hostile("environ.mjs")], { ...given, env })) as Record<
      string,
      string
    >;
    expect(seen).toMatchObject({ ...env, HOME: "/tmp" });
    expect(Object.keys(seen).filter((name) => name.startsWith("MCPVALS"))).toEqual([]);
    const child = await bench.start(["/bin/sh", "-c", "echo ready; read line"], { ...given, env });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    expect(commandLines("named-value")).toEqual([]);
    expect(commandLines("two-value")).toEqual([]);
  });

  it("has no network", async () => {
    expect(await bench.ask([node, hostile("network.mjs"), "80"], given)).toEqual({
      loopback: { code: "ECONNREFUSED" },
      resolved: { code: expect.stringMatching(/EAI_AGAIN|ENOTFOUND/) },
    });
  });

  it("is killed when it exceeds its memory limit", async () => {
    const wanted = { ...found.wanted, memoryBytes: 128 * megabyte };
    expect(await bench.run([node, hostile("hog.mjs"), "1000"], { ...given, spec: wanted })).toMatchObject({
      stdout: "",
      brokenLimit: "it was killed, as for using more than 128 MB of memory",
    });
  });

  it("is removed when it is stopped, even if it ignores signals", async () => {
    const child = await bench.start(
      ["/bin/sh", "-c", "trap '' TERM INT HUP; echo ready; while :; do :; done"],
      given,
    );
    await new Promise((resolve) => child.stdout.once("data", resolve));
    expect(runtime("ps", "--format", "{{.Names}}")).toMatch(/mcpvals-/);
    await child.stop({ stdinMs: 50, termMs: 50 });
    expect(child.brokenLimit).toBeUndefined();
    await vi.waitFor(() => expect(runtime("ps", "--all", "--format", "{{.Names}}")).not.toMatch(/mcpvals-/));
  });
});

describe("the docker sandbox refuses", () => {
  it("a spec without an image, a runtime that is not there, and a client whose engine does not run", async () => {
    const client = join(await freshFolder(), "client");
    const script = '#!/bin/sh\necho "{}"\necho "Cannot connect to the engine" >&2\nexit 1\n';
    await writeFile(client, script, { mode: 0o755 });
    const none = "no container engine works here: ";
    for (const [wanted, message] of [
      [{}, "the sandbox docker needs an image"],
      [
        { image: "x", runtime: ["no-such-runtime"] },
        `${none}no-such-runtime: command not found: no-such-runtime`,
      ],
      [{ image: "x", runtime: [client] }, `${none}${client}: Cannot connect to the engine`],
    ] as const) {
      const checked = sandbox.check({ ...spec, kind: "docker", ...wanted }, AbortSignal.timeout(20_000));
      await expect(checked).rejects.toMatchObject({ code: "sandbox/unavailable", message });
    }
  });
});
