import { existsSync, readFileSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { type HereOutcome, folderOf, runHere } from "../support/cli.ts";
import { shopRelease, startReleaseMirror } from "../support/release-mirror.ts";

const packageText = "github.com/acme/shop@v1";
const task = {
  kind: "Task",
  apiVersion: "mcp-eval/v1",
  metadata: { name: "buy" },
  spec: {
    imports: [{ package: packageText, as: "shop" }],
    prompt: "Buy it.",
    verify: [{ "shop.look": {} }],
  },
};

/** A project with a mirror; `.git` keeps the search for a lock inside of it. */
async function startProject(...versions: readonly string[]) {
  const folder = folderOf({ "tasks/buy.json": task, ".git/HEAD": "" });
  const mirror = await startReleaseMirror({ "acme/shop": versions.map(shopRelease) });
  const env = { MCPVALS_RELEASES_URL: mirror.url, MCPVALS_EXTENSIONS_CACHE: join(folder.path, "cache") };
  const cli = (...args: readonly string[]): Promise<HereOutcome> => runHere(args, { cwd: folder.path, env });
  const flags = "--agent null --reporter json --output runs".split(" ");
  return {
    path: folder.path,
    mirror,
    extensions: (...args: readonly string[]) => cli("extensions", ...args),
    /** Exit code and stdout of `mcpvals extensions`. */
    async told(...args: readonly string[]): Promise<readonly [number | null, string]> {
      const { code, stdout } = await cli("extensions", ...args);
      return [code, stdout];
    },
    validate: () => cli("validate", "tasks"),
    run: (...more: readonly string[]) => cli("run", "tasks/buy.json", ...flags, ...more),
    /** Versions of the extension that were started, in order. */
    started(): readonly string[] {
      const file = join(folder.path, "started");
      return existsSync(file) ? readFileSync(file, "utf8").trim().split(" ") : [];
    },
    lock: () => readFileSync(join(folder.path, "mcp-eval.lock"), "utf8"),
    async [Symbol.asyncDispose]() {
      await mirror[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

function messageOf({ stdout }: HereOutcome): string | undefined {
  return (JSON.parse(stdout) as RunResult).trials[0]?.grades.find(({ grader }) => grader === "verify-steps")
    ?.reason;
}

/** Every file below the folder that has this name. */
function findFiles(folder: string, name: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.split("/").at(-1) === name)
    .map((path) => join(folder, path));
}

describe.concurrent("an extension from a release", { timeout: 120_000 }, () => {
  it("is fetched once, locked, and then runs without the network", async () => {
    await using project = await startProject("1.1.0", "1.0.0");
    const first = await project.run();
    expect([first.code, messageOf(first)]).toEqual([0, expect.stringContaining("this is 1.1.0")]);
    expect(first.stderr).toContain(`note: ${packageText} is now locked at v1.1.0 in mcp-eval.lock\n`);
    expect(first.stderr).toContain(`note: ${packageText} was fetched and runs without a sandbox`);
    const lock = project.lock();
    expect(lock).toContain("v1.1.0");
    const hash = /tree: (\S+)/.exec(lock)?.[1];
    expect((JSON.parse(first.stdout) as RunResult).environment.extensions).toEqual([
      { name: "shop", package: packageText, version: "v1.1.0", hash, sandbox: "none" },
    ]);
    project.mirror.releases.set("acme/shop", [shopRelease("1.2.0")]);
    project.mirror.requests.length = 0;
    const second = await project.run("--frozen");
    expect([second.code, second.stderr.includes("locked at")]).toEqual([0, false]);
    expect([project.mirror.requests, project.lock()]).toEqual([[], lock]);
    expect(project.started()).toEqual(["1.1.0", "1.1.0"]);
  });

  it("is refused when frozen and not locked, and nothing is asked or started", async () => {
    await using project = await startProject("1.0.0");
    const { code, stdout, stderr } = await project.run("--frozen");
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^tasks\/buy\.json:\d+:\d+: error [^]*\(extension\/not-locked\)/);
    expect([project.mirror.requests, project.started()]).toEqual([[], []]);
    for (const name of ["mcp-eval.lock", "runs"]) expect(existsSync(join(project.path, name))).toBe(false);
  });

  it("is refused once a file of it has changed, and nothing of it is executed", async () => {
    await using project = await startProject("1.0.0");
    expect((await project.run()).code).toBe(0);
    const [file = ""] = findFiles(join(project.path, "cache"), "shop-any.mjs");
    writeFileSync(file, `${readFileSync(file, "utf8")}\n// changed`);
    const { code, stderr } = await project.run();
    expect([code, stderr]).toEqual([2, expect.stringContaining("(extension/integrity)")]);
    expect(project.started()).toEqual(["1.0.0"]);
    expect(await project.told("verify")).toEqual([
      1,
      expect.stringMatching(
        /^github\.com\/acme\/shop@v1 {2}v1\.0\.0 {2}changed\n {2}\S.*\n0 verified, 1 changed, 0 not cached\n$/,
      ),
    ]);
  });

  it("cannot be fetched: the run is not a finding about anybody", async () => {
    await using project = await startProject("1.0.0");
    project.mirror.interfere = (_request, response) => {
      response.writeHead(403).end();
      return true;
    };
    const { code, stderr } = await project.run();
    expect([code, stderr]).toEqual([3, expect.stringContaining("(extension/unreachable)")]);
  });

  it("is taken from the mirror that the option names", async () => {
    await using project = await startProject("1.0.0");
    await using other = await startReleaseMirror({ "acme/shop": [shopRelease("1.5.0")] });
    const outcome = await project.run("--releases-url", other.url);
    expect([outcome.code, messageOf(outcome)]).toEqual([0, expect.stringContaining("this is 1.5.0")]);
    expect(project.mirror.requests).toEqual([]);
  });
});

describe.concurrent("mcpvals extensions", { timeout: 120_000 }, () => {
  it("adds, updates, pins back without the network, and lists what there is", async () => {
    await using project = await startProject("1.0.0");
    expect(await project.told("add", packageText)).toEqual([
      0,
      `${packageText} is now locked at v1.0.0 in mcp-eval.lock\n`,
    ]);
    expect((await project.extensions("add", packageText)).stdout).toBe(
      `${packageText} was locked at v1.0.0 in mcp-eval.lock before; its files are as they should be\n`,
    );
    expect((await project.extensions("update")).stdout).toBe(`${packageText}  v1.0.0 is the newest\n`);

    project.mirror.releases.set("acme/shop", ["2.0.0", "1.2.0", "1.0.0"].map(shopRelease));
    expect(await project.told("update", "shop")).toEqual([0, `${packageText}  v1.0.0 -> v1.2.0\n`]);
    expect(messageOf(await project.run("--frozen"))).toContain("this is 1.2.0");

    await project.mirror[Symbol.asyncDispose]();
    expect(await project.told("pin", "shop@v1.0.0")).toEqual([
      0,
      `${packageText}  v1.2.0 -> v1.0.0  in mcp-eval.lock\n`,
    ]);
    expect(messageOf(await project.run("--frozen"))).toContain("this is 1.0.0");

    const { code, stdout } = await project.extensions("list");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^mcp-eval\.lock\n {2}github\.com\/acme\/shop@v1 {2}v1\.0\.0 {2}for any {2}cached, \d+ B; v1\.2\.0 is cached too\n\nCached besides\n {2}github\.com\/acme\/shop {2}v1\.2\.0 {2}for any {2}\d+ B, used today\n$/,
    );
    const cached = [{ version: "v1.0.0", platform: "any" }];
    const names = { written: packageText, package: "github.com/acme/shop", platforms: ["any"] };
    expect(JSON.parse((await project.extensions("list", "--json")).stdout)).toMatchObject({
      lock: "mcp-eval.lock",
      extensions: [{ ...names, version: "v1.0.0", cached, newer: "v1.2.0" }],
      others: [{ version: "v1.2.0" }],
    });
  });

  it("pins a version that the written one does not include", async () => {
    await using project = await startProject("2.0.0", "1.0.0");
    await project.extensions("add", packageText);
    const pinned = await project.extensions("pin", "github.com/acme/shop@v2.0.0", "--json");
    const change = { lock: "mcp-eval.lock", written: packageText, from: "v1.0.0", to: "v2.0.0" };
    expect([pinned.code, JSON.parse(pinned.stdout)]).toEqual([0, change]);
    expect(messageOf(await project.run("--frozen"))).toContain("this is 2.0.0");
  });

  it("verifies what is cached, and says what is not", async () => {
    await using project = await startProject("1.0.0");
    expect(await project.told("verify")).toEqual([
      3,
      "Nothing is locked: there is no mcp-eval.lock in this folder or above it.\n",
    ]);
    await project.extensions("add", packageText);
    const all = await project.extensions("verify", "--json");
    expect([all.code, JSON.parse(all.stdout)]).toMatchObject([0, { verified: 1, changed: 0, notCached: 0 }]);
    expect(await project.told("verify", "--cache-dir", "empty")).toEqual([
      3,
      `${packageText}  v1.0.0  not cached\n0 verified, 0 changed, 1 not cached\n`,
    ]);
  });

  it("says so when there is nothing yet", async () => {
    await using project = await startProject();
    const none = "Nothing is locked: there is no mcp-eval.lock in this folder or above it.\n";
    expect((await project.extensions("list")).stdout).toBe(none);
    expect((await project.extensions("update")).stdout).toBe(none);
    expect((await project.extensions("prune")).stdout).toBe("Nothing is cached.\n");
    expect((await project.extensions("pin", "shop@v1")).stderr).toBe(
      'error no extension of the lock is named "shop" (extension/not-locked)\n' +
        "  hint: Nothing is locked yet; mcpvals extensions add PACKAGE locks a first one.\n",
    );
    expect((await project.extensions("add", "mcpvals:csv")).stderr).toMatch(
      /^error mcpvals:csv comes with mcpvals, so that there is nothing to fetch \(/,
    );
    expect((await project.extensions("add", "npm:shop")).stderr).toMatch(
      /^error the npm package shop is not installed in /,
    );
  });

  it("lists and prunes what is damaged, however young and locked, and fetches it again", async () => {
    await using project = await startProject("1.0.0");
    await project.extensions("add", packageText);
    const [record = ""] = findFiles(join(project.path, "cache"), "extension.json");
    writeFileSync(record, "{");
    const listed = await project.extensions("list");
    expect(listed.stdout).toMatch(/github\.com\/acme\/shop  v1\.0\.0  for any  damaged; prune removes it\n$/);
    expect((await project.run("--frozen")).code).toBe(2);
    const pruned = await project.extensions("prune");
    expect(pruned.stdout).toContain("1 version removed, 0 B; 0 kept\n");
    expect((await project.run("--frozen")).code).toBe(0);
  });

  it("prunes what was not used for long, but nothing that is locked", async () => {
    await using project = await startProject("1.0.0");
    await project.extensions("add", packageText);
    project.mirror.releases.set("acme/shop", ["1.2.0", "1.0.0"].map(shopRelease));
    await project.extensions("update");
    ageEverything(join(project.path, "cache"), 40);
    expect(await project.told("prune", "--older-than", "6w")).toEqual([
      0,
      "0 versions removed, 0 B; 2 kept\n",
    ]);
    const dry = await project.extensions("prune", "--dry-run");
    const row = String.raw`github\.com/acme/shop  v1\.0\.0  for any  \d+ B`;
    expect(dry.stdout).toMatch(new RegExp(`^${row}\n1 version would be removed, \\d+ B; 1 kept\n$`));
    expect(findFiles(join(project.path, "cache"), "shop-any.mjs")).toHaveLength(2);
    const pruned = await project.extensions("prune");
    expect(pruned.stdout).toMatch(new RegExp(`^${row}\n1 version removed, \\d+ B; 1 kept\n$`));
    expect(findFiles(join(project.path, "cache"), "shop-any.mjs")).toHaveLength(1);
    expect((await project.run("--frozen")).code).toBe(0);
  });

  it("refuses what it cannot do, and leaves the lock as it is", async () => {
    await using project = await startProject("1.0.0");
    writeFileSync(join(project.path, "shop"), "#!/bin/sh\n", { mode: 0o755 });
    await project.extensions("add", packageText);
    const lock = project.lock();
    const refusals: readonly (readonly [string, errorCode: string, hint: string])[] = [
      [`add ${packageText} --sha256 ${"0".repeat(64)}`, "extension/integrity", ""],
      ["pin shop", "usage/invalid-option", "Write it as NAME@VERSION"],
      ["pin shup@v1", "extension/not-locked", 'Did you mean "shop"?'],
      ["update other", "extension/not-locked", "Known extensions: shop, github.com/acme/shop."],
      ["add ./shop", "usage/invalid-option", "only what is fetched is locked"],
      ["add shop", "extension/invalid-package", "github.com/ORG/REPO@VERSION"],
      ["add github.com/acme/none@v1", "extension/not-found", ""],
      ["pin shop@v9.0.0", "extension/not-found", ""],
    ];
    await Promise.all(
      refusals.map(async ([args, errorCode, hint]) => {
        const { code, stdout, stderr } = await project.extensions(...args.split(" "));
        expect([args, code, stdout]).toEqual([args, 2, ""]);
        expect(stderr).toContain(`(${errorCode})`);
        expect(stderr).toContain(hint);
      }),
    );
    expect(project.lock()).toBe(lock);
  });

  it("refuses a lock that was damaged, and leaves it as it is", async () => {
    await using project = await startProject("1.0.0");
    writeFileSync(join(project.path, "mcp-eval.lock"), "version: 1\nextensions: [");
    const { extensions, validate } = project;
    for (const refused of [extensions("list"), extensions("add", packageText), validate()]) {
      const { code, stderr } = await refused;
      expect([code, stderr]).toEqual([2, expect.stringContaining("(extension/invalid-lock)")]);
    }
    expect(project.lock()).toBe("version: 1\nextensions: [");
  });
});

/** Sets back the times of everything below a folder by so many days. */
function ageEverything(folder: string, days: number): void {
  for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const file = join(folder, path);
    const at = statSync(file).mtimeMs / 1000 - days * 86_400;
    utimesSync(file, at, at);
  }
}
