import { strict as assert } from "node:assert";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/**
 * Tries the package that is installed in a folder as its users would, on any system: `node scripts/try-package.ts FOLDER`. It needs
 * nothing else of this repository than the fixture server. Throws where something is not as it should be.
 */
const folder = resolve(process.argv[2] ?? ".");
const root = join(import.meta.dirname, "..");
const { name, version, bin } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly name: string;
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
};
const server = join(root, "test/fixtures/servers/fixture-server.mjs");
const home = mkdtempSync(join(tmpdir(), "mcpvals-try-"));

try {
  assert.equal(mcpvals(0, "--version").trim(), version);
  assert.match(mcpvals(0, "tools", "--", process.execPath, server), /echo/);
  for (const [file, expected, code] of [
    ["good.yaml", "hi", 0],
    ["bad.yaml", "ho", 1],
  ] as const) {
    const config = [
      `server: { transport: stdio, command: ${JSON.stringify(process.execPath)}, args: [${JSON.stringify(server)}] }`,
      "toolHealthSuites:",
      "  - name: suite",
      `    tests: [{ name: echo, args: { message: hi }, expectedResult: ${expected} }]`,
    ];
    writeFileSync(join(home, file), `${config.join("\n")}\n`);
    assert.match(mcpvals(code, "run", "--config", file), code === 0 ? /PASS/ : /FAIL/);
  }
  const script = `import { evaluate } from ${JSON.stringify(name)}; console.log(typeof evaluate)`;
  const library = execFileSync(process.execPath, ["--input-type=module", "--eval", script], { cwd: folder });
  assert.equal(String(library).trim(), "function");
  console.log(`${name} ${version} works with Node ${process.versions.node} on ${process.platform}`);
} finally {
  rmSync(home, { recursive: true, force: true, maxRetries: 3 });
}

/** Runs the program of the package, and returns its output. Throws when its exit code is another one. */
function mcpvals(code: number, ...args: readonly string[]): string {
  const main = join(folder, "node_modules", name, bin["mcpvals"] ?? "");
  const ran = spawnSync(process.execPath, [main, ...args], {
    cwd: home,
    env: { ...process.env, HOME: home, USERPROFILE: home },
    encoding: "utf8",
  });
  assert.equal(ran.status, code, `mcpvals ${args.join(" ")}\n${ran.stdout}\n${ran.stderr}`);
  return ran.stdout;
}
