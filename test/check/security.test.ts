import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, globSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { CapabilityProfile } from "../../src/model/check.ts";
import { findTracer } from "../../src/check/world.ts";
import { sandboxOf } from "../../src/sandbox/sandboxes.ts";
import { whyNot } from "../sandbox/support.ts";
import { folderOf, root, runHere } from "../support/cli.ts";
import { checked } from "./support.ts";

/** Why nothing can be watched here. */
async function whyNotWatched(): Promise<string | undefined> {
  if (process.platform !== "linux") return "only tried on Linux";
  const reason = await whyNot(sandboxOf("process"));
  const hasTracer = reason === undefined && (await findTracer(new AbortController().signal)) !== undefined;
  return reason ?? (hasTracer ? undefined : "there is no strace that works");
}

const reason = await whyNotWatched();
const note = reason === undefined ? "" : ` (SKIPPED: ${reason})`;

const unsafe = join(root, "examples/unsafe-server/server.mjs");
const bad = join(root, "examples/bad-server/server.mjs");
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
      sandbox: { kind: "process", network: ["host"], read: [], write: [notes, "~", "~/left-behind"] },
    });
  });

  it("says what a later version touches more than the committed profile, and nothing of the same version", async () => {
    using folder = project();
    const profileFindings = async (port: string, update: boolean): Promise<readonly string[]> => {
      const command = [process.execPath, reaching, port, "notes"];
      const options = {
        security: true,
        calls: "none",
        cwd: folder.path,
        snapshot: "s.json",
        update,
      } as const;
      const { findings } = await checked(command, options);
      return findings.flatMap(({ code, message }) => (code === "security/profile" ? message : []));
    };
    await profileFindings("7001", true);
    expect(await profileFindings("7001", false)).toEqual([]);
    expect(await profileFindings("7002", false)).toEqual(["connect: 127.0.0.1:7002 is not in the profile"]);
  });

  it("writes the profile as a table in Markdown, and the weaknesses in SARIF", async () => {
    using folder = project();
    const flags = "check --security --calls none --reporter markdown=r.md --reporter sarif=r.sarif".split(
      " ",
    );
    const { code } = await runHere([...flags, "--", process.execPath, unsafe, "notes", "command-injection"], {
      cwd: folder.path,
    });
    expect(code).toBe(1);
    expect(readFileSync(join(folder.path, "r.md"), "utf8")).toContain("| tool find\\_author |");
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

it("a finding that is accepted is info, with its reason, and fails nothing", async () => {
  using folder = folderOf({
    "config.json": {
      servers: { bad: { transport: "stdio", command: process.execPath, args: [bad, "crash"] } },
      check: {
        accepted: [{ code: "call/crash", tool: "crash", reason: "It is a test.", date: "2026-11-29" }],
      },
    },
  });
  const { code } = await runHere("check config.json --reporter sarif=r.sarif".split(" "), {
    cwd: folder.path,
  });
  expect(code).toBe(0);
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
