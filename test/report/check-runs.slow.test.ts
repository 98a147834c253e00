import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { folderOf, root, runHere, runIn } from "../support/cli.ts";

const program = join(root, "examples/bad-server/server.mjs");
const faultyServer = join(root, "test/fixtures/servers/faulty-server.mjs");
const hasOneWarning = [program, "no-description"];

it("fails with more warnings than are allowed, and says so again when the run is shown", async () => {
  using folder = folderOf({});
  const { path: cwd } = folder;
  const summary = join(cwd, "summary.md");
  const reporters = ["console", "github", "sarif=findings.sarif", "junit=junit.xml"].flatMap((name) => [
    "--reporter",
    name,
  ]);
  const checked = await runHere(
    ["check", "--calls", "none", "--max-warnings", "0", ...reporters, "--", "node", ...hasOneWarning],
    { cwd, env: { GITHUB_STEP_SUMMARY: summary } },
  );
  const reason = "Failed: 1 warning; --max-warnings allows 0.";
  expect([checked.code, checked.stderr]).toEqual([1, ""]);
  expect(checked.stdout).toContain(`FAIL   exit 1\n  ${reason}\n`);
  expect(checked.stdout).toMatch(/^::warning title=definition\/no-description::/m);
  expect(checked.stdout).toMatch(new RegExp(`^::error title=mcpvals::FAIL: ${reason}$`, "m"));
  expect(readFileSync(summary, "utf8")).toMatch(/^# mcpvals check: fail\n[^]*\n## Warnings \(1\)\n/);
  expect(readFileSync(join(cwd, "findings.sarif"), "utf8")).toContain("bad-server/server.mjs");
  const junit = readFileSync(join(cwd, "junit.xml"), "utf8");
  expect(junit).toMatch(/^<testsuites name="[^"]*" tests="7" failures="1" errors="0" /m);
  expect(junit).toContain(
    `<testcase name="verdict" classname="mcpvals">\n      <failure type="fail" message="${reason}"/>`,
  );
  const shown = await runHere(["show"], { cwd });
  expect([shown.code, shown.stdout.includes(reason)]).toEqual([1, true]);
});

it("skips calls where no tool is called, and says how to call them", async () => {
  using folder = folderOf({});
  const { path: cwd } = folder;
  const { code, stdout } = await runHere(["check", "--", "node", faultyServer, "not-annotated"], { cwd });
  expect(code, stdout).toBe(0);
  expect(stdout).toMatch(/^ {2}- calls +\S+ ms {2}skipped: no tool is annotated readOnlyHint: true$/m);
  expect(stdout).toMatch(
    /^ {2}1 tool, none called: not annotated readOnlyHint: true, so called only with --calls all$/m,
  );
  expect(stdout).not.toMatch(/^Skipped/m);
});

it("counts the calls that were made, not those that were planned", async () => {
  using folder = folderOf({});
  const { path: cwd } = folder;
  const server = ["node", faultyServer, "tools=2", "ends-with-call=ended"];
  const { code, stdout } = await runHere(["check", "--", ...server], { cwd });
  expect(code, stdout).toBe(1);
  const counts = /^ {2}3 tools, 1 called, 2 not \(the calls ended before\)$/m;
  expect(stdout).toMatch(counts);
  expect((await runHere(["show"], { cwd })).stdout).toMatch(counts);
});

it("skips parts that have nothing to call or to compare, and decides by the others", async () => {
  using folder = folderOf({});
  const { path: cwd } = folder;
  const { code, stdout } = await runHere(["check", "--", "node", faultyServer, "no-tools"], { cwd });
  expect(code, stdout).toBe(0);
  expect(stdout).toMatch(/^ {2}- calls +\S+ ms {2}skipped: the server lists no tools$/m);
  expect(stdout).toMatch(/^ {2}- stability +\S+ ms {2}skipped: the server lists nothing$/m);
  expect(stdout).toMatch(/^ {2}✓ handshake /m);
});

it("does not pass a server that answers no call", async () => {
  using folder = folderOf({});
  const flags = ["--call-timeout", "1s"];
  const { code, stdout } = await runHere(
    ["check", ...flags, "--", "node", faultyServer, "unanswered-calls"],
    { cwd: folder.path },
  );
  expect(code, stdout).toBe(3);
  expect(stdout).toContain(
    "faulty-server › calls: the server answered no call in time; --call-timeout gives calls more time",
  );
  expect(stdout).toContain("A call is not answered in time");
});

it("takes the check section of a config; options win over it", async () => {
  using folder = folderOf({
    "mcp-eval.config.yaml": `servers:
  notes: { transport: stdio, command: node, args: ${JSON.stringify(hasOneWarning)} }
check: { calls: none, disable: [definition/no-description], maxWarnings: 0 }
`,
  });
  const { path: cwd } = folder;
  const quiet = await runHere(["check", "--reporter", "markdown"], { cwd });
  expect([quiet.code, quiet.stderr]).toEqual([0, ""]);
  expect(quiet.stdout).toMatch(/^# mcpvals check: pass\n/);
  expect(quiet.stdout).not.toContain("definition/no-description");
  const wrong = await runHere(["check", "--disable", "definition/no-descripton"], { cwd });
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toContain('Did you mean "definition/no-description"?');
});

it("names keys and values that the check section does not know", async () => {
  using folder = folderOf({
    "mcp-eval.config.yaml": `servers:
  notes: { transport: stdio, command: node }
check: { cals: none, disable: [nothing] }
`,
  });
  const { code, stderr } = await runHere(["check"], { cwd: folder.path });
  expect(code).toBe(2);
  expect(stderr).toContain('unknown key "cals" in check');
  expect(stderr).toContain("check.disable[0] must be the code of a finding, GROUP/NAME");
});

it.runIf(existsSync("/dev/full"))(
  "does not pass when a report could not be written",
  async () => {
    const checked = await runIn({}, [
      "check",
      "--calls",
      "none",
      "-r",
      "junit=/dev/full",
      "--",
      "node",
      ...hasOneWarning,
    ]);
    expect([checked.code, checked.stderr]).toEqual([
      3,
      "junit=/dev/full: ENOSPC: no space left on device, write\nEverything passed, but not all reports could be written, or a hook failed: exit 3.\n",
    ]);
  },
  60_000,
);

it("says that a run cannot be written, as a run does", async () => {
  const checked = await runIn({ blocked: "" }, ["check", "-o", "blocked", "--", "node", ...hasOneWarning]);
  expect([checked.code, checked.stderr]).toEqual([
    2,
    expect.stringContaining("the run cannot be written to"),
  ]);
});
