import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { mapValues } from "../../src/base/json.ts";
import type { CheckOptions } from "../../src/check.ts";
import type { CapabilityProfile } from "../../src/model/check.ts";
import { folderOf, root, runHere } from "../support/cli.ts";
import { defaultSandbox } from "../../src/model/sandbox.ts";
import { stdioSpec } from "../servers/support.ts";
import { checked, findingsIn, serverThat, serverWith, whyNotWatched } from "./support.ts";

const reason = await whyNotWatched();
const note = reason === undefined ? "" : ` (SKIPPED: ${reason})`;

const unsafe = join(root, "examples/unsafe-server/server.mjs");
const bad = join(root, "examples/bad-server/server.mjs");
const late = join(root, "test/fixtures/servers/late-server.mjs");
const reaching = join(root, "test/fixtures/servers/reaching-server.mjs");

function project(): ReturnType<typeof folderOf> {
  const folder = folderOf({});
  mkdirSync(join(folder.path, "notes"));
  return folder;
}

describe.skipIf(reason !== undefined)(`a check of security${note}`, () => {
  it("lets nothing leave the machine and changes nothing on it, and shows what was tried", async () => {
    using folder = project();
    let connections = 0;
    await using listener = createServer((socket) => {
      connections += 1;
      socket.destroy();
    }).listen(0, "127.0.0.1");
    await once(listener, "listening");
    const address = listener.address();
    const port = address !== null && typeof address === "object" ? address.port : 0;
    const file = join(folder.path, "snapshot.json");
    const notes = join(folder.path, "notes");
    await checked([process.execPath, reaching, String(port), notes], {
      security: true,
      snapshot: file,
      update: true,
    });
    expect([connections, readdirSync(notes)]).toEqual([0, []]);
    expect(readdirSync("/tmp")).not.toContain(`left-behind-${port}`);
    const [server] = Object.values(
      JSON.parse(readFileSync(file, "utf8")) as Record<string, { profile: CapabilityProfile }>,
    );
    expect(server?.profile).toEqual({
      watched: "all",
      start: {
        read: [],
        write: [notes, "~/kept-*", "~/left-behind"],
        run: [],
        connect: [`127.0.0.1:${port}`],
      },
      tools: { rest: { read: [], write: [], run: [], connect: [] } },
      prompts: {},
      resources: {},
      sandbox: { kind: "process", network: ["host"], read: [], write: [notes, "~", "~/left-behind"] },
    });
  });

  it("counts what happens in calls with hostile arguments that do not ask for it, and names tools that did not work", async () => {
    using folder = project();
    const { findings } = await checked([process.execPath, late], { security: true, cwd: folder.path });
    const found = findings.map(({ code, place, message }) => [code, place.tool, message]);
    expect(found.toSorted().filter(([code]) => code?.startsWith("security/"))).toEqual([
      [
        "security/not-tried",
        undefined,
        "no call without hostile arguments succeeded in the sandbox, by what the results say, so that what the tool does was not seen: broken",
      ],
      ["security/open-world", "connect", "it connected to 203.0.113.9:80"],
      ["security/read-only", "write", "it wrote ~/.profile"],
      [
        "security/secret-shown",
        "show",
        "a result has the secret of $AWS_SECRET_ACCESS_KEY, $MCPVALS_PLANTED_TOKEN, which its arguments do not ask for",
      ],
    ]);
  });

  it("says what a later version touches more than the committed profile, and nothing of the same version", async () => {
    using folder = project();
    const profileFindings = async (
      port: string,
      snapshot: string,
      rest: CheckOptions = {},
    ): Promise<readonly string[]> => {
      const command = [process.execPath, reaching, port, "notes"];
      const options = { security: true, calls: "none", cwd: folder.path, snapshot, ...rest } as const;
      const { findings } = await checked(command, options);
      const codes = ["security/profile", "security/not-watched"];
      return findings.flatMap(({ code, message }) => (codes.includes(code) ? message : []));
    };
    await profileFindings("7001", "without.json", { update: true, security: false });
    copyFileSync(join(folder.path, "without.json"), join(folder.path, "s.json"));
    const [ofNone] = await Promise.all([
      profileFindings("7002", "without.json"),
      profileFindings("7001", "s.json", { update: true }),
    ]);
    expect(ofNone).toEqual([expect.stringContaining("has no profile")]);
    const whole = readFileSync(join(folder.path, "s.json"), "utf8");
    writeFileSync(join(folder.path, "files.json"), whole.replace('"watched": "all"', '"watched": "files"'));
    const later = [
      profileFindings("7001", "s.json"),
      profileFindings("7002", "s.json"),
      profileFindings("7002", "files.json"),
    ];
    expect(await Promise.all(later)).toEqual([
      [],
      ["connect: 127.0.0.1:7002 is not in the profile"],
      [expect.stringContaining("was made without strace")],
    ]);
  });

  it("has in the profile what prompts and templates touch, and compares it unless the committed one is older", async () => {
    const text = `"text:" + path`;
    const serverOf = (prompt: string): string =>
      serverWith(
        { t: "return say('done')" },
        {
          prompts: { ask: prompt },
          templates: {
            "notes://{path}": `await fetch("http://notes.example.com/").catch(() => {}); return ${text};`,
          },
        },
      );
    const writes = `(await import("node:fs")).writeFileSync(process.env.HOME + "/asked", path); return ${text};`;
    using folder = folderOf({ "server.mjs": serverOf(writes) });
    const file = join(folder.path, "s.json");
    const found = async (cwd: string, update: boolean): Promise<readonly unknown[]> => {
      const options = { security: true, calls: "none", cwd, snapshot: "s.json", update } as const;
      const { findings } = await checked([process.execPath, "server.mjs"], options);
      const codes = ["security/profile", "security/not-watched"];
      return findings.flatMap(({ code, place, message }) =>
        codes.includes(code) ? [[code, place, message]] : [],
      );
    };
    await found(folder.path, true);
    const written = JSON.parse(readFileSync(file, "utf8")) as Record<string, { profile: CapabilityProfile }>;
    const [{ profile } = { profile: undefined }] = Object.values(written);
    const { prompts: { ask, p } = {}, resources = {}, sandbox } = profile ?? {};
    expect([ask?.write, p?.write, resources["notes://{path}"]?.connect]).toEqual([
      ["~/asked"],
      [],
      ["notes.example.com"],
    ]);
    expect([sandbox?.write, sandbox?.network]).toEqual([["~/asked"], ["host"]]);
    writeFileSync(join(folder.path, "server.mjs"), serverOf(writes.replace("/asked", "/more")));
    const older = mapValues(written, ({ profile: { watched, start, tools, sandbox }, ...listing }) => ({
      ...listing,
      profile: { watched, start, tools, sandbox },
    }));
    using ofOlder = folderOf({
      // One prompt is enough for it.
      "server.mjs": serverWith({ t: "return say('done')" }),
      "s.json": older,
    });
    expect(await Promise.all([found(folder.path, false), found(ofOlder.path, false)])).toEqual([
      [["security/profile", { prompt: "ask" }, "write: ~/more is not in the profile"]],
      [
        [
          "security/not-watched",
          {},
          expect.stringContaining("the profile in the snapshot is of an older version"),
        ],
      ],
    ]);
  });

  it("writes the profile as a table in Markdown, and the weaknesses in SARIF", async () => {
    const call = `const { exec } = await import("node:child_process");
      if (path.length > 1000 || typeof path !== "string") return { ...say("no"), isError: true };
      return new Promise((settle) => exec("echo " + path, (error) => settle(say(error === null ? "done" : "no"))));`;
    const prompts = { ask: `(await import("node:child_process")).execSync("echo text"); return path;` };
    using folder = folderOf({ "server.mjs": serverWith({ t: call }, { prompts }) });
    const flags = "check --security --calls none --reporter markdown=r.md --reporter sarif=r.sarif".split(
      " ",
    );
    const { code, stdout } = await runHere(
      [...flags, "--reporter", "console", "--", process.execPath, "server.mjs"],
      { cwd: folder.path },
    );
    expect(code).toBe(1);
    expect(stdout).toMatch(/touches: .*starts \S*sh \(t, prompt ask\)/);
    expect(stdout).toMatch(
      /1 tool, none called: calls are off \(--calls none\); the part security called 1 in the sandbox \([1-9]\d+ hostile calls planned\)/,
    );
    const markdown = readFileSync(join(folder.path, "r.md"), "utf8");
    for (const part of ["| tool t |", "| prompt ask |", "1 prompt more: nothing besides."])
      expect(markdown).toContain(part);
    const { runs } = JSON.parse(readFileSync(join(folder.path, "r.sarif"), "utf8")) as {
      runs: { taxonomies: { name: string; taxa: { id: string }[] }[] }[];
    };
    expect(runs[0]?.taxonomies.map(({ name, taxa }) => [name, taxa.map(({ id }) => id)])).toEqual([
      ["CWE", ["CWE-78"]],
      ["OWASP MCP Top 10", ["MCP05"]],
    ]);
  });
});

it.skipIf(reason !== undefined)(
  `a server that opens no session in the sandbox is blamed for nothing${note}`,
  async () => {
    using folder = project();
    const outcome = await runHere(["check", "--security", "--", process.execPath, "-e", "process.exit(1)"], {
      cwd: folder.path,
    });
    expect(outcome).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("sandbox/no-session") as unknown,
    });
  },
);

describe.skipIf(reason !== undefined)(`the home folder of its user${note}`, () => {
  it("is not visible to a server that is started in it and gets it as an argument", async () => {
    using home = folderOf({ "secret.txt": "the real one" });
    copyFileSync(reaching, join(home.path, "server.mjs"));
    const env = { HOME: home.path };
    const flags = ["--security", "--calls", "none", "--reporter", "json=r.json", "--"];
    const args = ["check", ...flags, process.execPath, "server.mjs", "1", "."];
    const done = spawnSync(process.execPath, [join(root, "src/cli/main.ts"), ...args], {
      cwd: home.path,
      env: { ...process.env, ...env },
    });
    expect(done.stderr.toString()).toBe("");
    expect(existsSync(join(home.path, "left-behind"))).toBe(false);
    const [journal = ""] = globSync(".mcpvals/runs/*/journal.jsonl", { cwd: home.path });
    const recorded = readFileSync(join(home.path, journal), "utf8");
    // What it saw in its folder is on record.
    expect([recorded.includes("mcpvals-note.txt"), recorded.includes("secret.txt'")]).toEqual([true, false]);
  });
});

it.skipIf(reason !== undefined)(
  `a server that ends because of a limit of its sandbox is said to${note}`,
  async () => {
    using folder = folderOf({
      "server.mjs": serverThat({
        call: "for (let n = 0; n < 20; n += 1) spawn('sleep', ['20']); return new Promise(() => {})",
      }),
    });
    const sandbox = { ...defaultSandbox, kind: "process", processes: 8, read: [folder.path] } as const;
    const spec = stdioSpec(process.execPath, [join(folder.path, "server.mjs")], { sandbox, cwd: "/tmp" });
    const calls = [{ tool: "t", args: { path: "a" }, expects: "result", why: "a test" }] as const;
    const found = await findingsIn("calls", spec, { calls });
    expect(found.find(({ code }) => code === "call/crash")?.message).toContain(
      "the server ended (a limit of its sandbox: it had too many processes, and may have 8)",
    );
  },
);

it.skipIf(reason !== undefined)(
  `a definition that differs at each start does not depend on the client${note}`,
  async () => {
    const source = serverThat({}).replace(
      `description: "Does it."`,
      "description: `Does it. Started at ${process.hrtime.bigint()}.`",
    );
    using folder = folderOf({ "server.mjs": source });
    const command = [process.execPath, "server.mjs"];
    const { findings } = await checked(command, { security: true, calls: "none", cwd: folder.path });
    const codes = findings.map(({ code }) => code);
    expect(codes).toContain("stability/start");
    expect(codes).not.toContain("security/client-dependent");
  },
);

it.skipIf(reason !== undefined)(`ordinary calls get the planted files, too${note}`, async () => {
  using folder = folderOf({
    "server.mjs": serverThat({
      call: "try { return say(readFileSync(path, 'utf8')); } catch (error) { return { ...say(error.message), isError: true }; }",
    }),
  });
  mkdirSync(join(folder.path, "notes"));
  const { findings } = await checked([process.execPath, "server.mjs", "notes"], {
    security: true,
    cwd: folder.path,
  });
  expect(findings.map(({ code }) => code)).not.toContain("call/never-succeeded");
});

it.skipIf(reason !== undefined)(
  `a server that does not answer in the sandbox is not told to be installed${note}`,
  async () => {
    using folder = folderOf({
      "config.json": {
        servers: {
          silent: {
            transport: "stdio",
            command: process.execPath,
            args: ["-e", "process.stdin.resume()"],
            startupTimeout: "1s",
          },
        },
      },
    });
    const { code, stderr } = await runHere(["check", "config.json", "--security"], { cwd: folder.path });
    expect([code, stderr.includes("does not answer initialize"), stderr.includes("Install")]).toEqual([
      3,
      true,
      false,
    ]);
  },
);

it("a finding that is accepted is info, with its reason, and fails nothing", async () => {
  using folder = folderOf({
    "config.json": {
      servers: { bad: { transport: "stdio", command: process.execPath, args: [bad, "crash"] } },
      check: {
        accepted: [
          { code: "call/crash", tool: "crash", reason: "It is a test.", date: "2026-11-29" },
          { code: "call/crash", tool: "gone", reason: "It was repaired.", date: "2026-11-29" },
          { code: "call/crash", prompt: "ask", reason: "It is another one.", date: "2026-11-29" },
          { code: "security/any-path", reason: "Nothing looks for it here.", date: "2026-11-29" },
        ],
      },
    },
  });
  const { code, stderr } = await runHere("check config.json --reporter sarif=r.sarif".split(" "), {
    cwd: folder.path,
  });
  expect([code, stderr.match(/check\.accepted: .*/g)]).toEqual([
    0,
    [
      expect.stringContaining("nothing was found that fits call/crash, tool gone"),
      expect.stringContaining("nothing was found that fits call/crash, prompt ask"),
    ],
  ]);
  const { runs } = JSON.parse(readFileSync(join(folder.path, "r.sarif"), "utf8")) as {
    runs: { results: { ruleId: string; level: string; suppressions?: { justification: string }[] }[] }[];
  };
  expect(runs[0]?.results.find(({ ruleId }) => ruleId === "call/crash")).toMatchObject({
    level: "note",
    suppressions: [{ justification: "2026-11-29: It is a test." }],
  });
});

it.skipIf(reason !== undefined)(
  `where no sandbox can run, nothing is called and nothing passes${note}`,
  () => {
    using folder = project();
    const main = join(root, "src/cli/main.ts");
    // No namespace can be made inside of this one.
    const without = ["--unshare-user", "--disable-userns", "--dev-bind", "/", "/", process.execPath, main];
    const flags = ["check", "--security", "--calls", "none", "--"];
    const server = [process.execPath, unsafe, "notes", "none"];
    const done = spawnSync("bwrap", [...without, ...flags, ...server], {
      cwd: folder.path,
      encoding: "utf8",
    });
    expect(done.stdout).toContain("what the server does was not seen: bubblewrap does not work here");
    expect([done.status, readdirSync(join(folder.path, "notes"))]).toEqual([3, []]);
  },
);
