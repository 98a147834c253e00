import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { findConformanceSuite, planConformance } from "../../src/check/conformance-suite.ts";
import type { CheckSpec, ConformanceSuite } from "../../src/model/check.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import type { Task } from "../../src/model/task.ts";
import { findDefects } from "../../src/check/catalogue.ts";
import { readCheck, readSurface } from "../../src/check/check-view.ts";
import type { RunResult } from "../../src/model/result.ts";
import { conformingServer } from "../support/programs.ts";
import { httpSpec } from "../servers/support.ts";
import { folderOf, root, runHere } from "../support/cli.ts";
import { startAtPort } from "../support/hostile.ts";
import { gradeContext, TrialEvents, workflowTask } from "../support/trial-events.ts";
import { faultyServer, findingsIn } from "./support.ts";

const suite = await findConformanceSuite([import.meta.url]);
/** Each scenario starts two programs, which takes long on a busy machine. */
const limit = 180_000;
const { signal } = new AbortController();

/** What scenarios find in a server, as `CODE: message`. */
async function foundIn(
  spec: ServerSpec,
  scenarios: readonly string[],
  { of = suite, callMs = 20_000 }: { of?: ConformanceSuite; callMs?: number } = {},
): Promise<string[]> {
  const found = await findingsIn("conformance", spec, {
    conformance: { suite: of, scenarios, skipped: [] },
    callMs,
  });
  return found.map(({ code, message }) => `${code}: ${message}`);
}

it(
  "check --conformance runs the scenarios that concern a server, and names the others",
  async () => {
    using folder = folderOf({});
    const args = ["check", "--conformance", "--calls", "none", "--call-timeout", "20s", "--reporter", "json"];
    const command = ["--", process.execPath, join(root, "test/fixtures/servers/faulty-server.mjs")];
    const { code, stdout, stderr } = await runHere([...args, ...command], { cwd: folder.path });
    expect(code, stderr).toBe(0);
    const { trials } = JSON.parse(stdout) as RunResult;
    const [trial] = trials.filter(({ task }) => task.endsWith(": conformance"));
    expect(trial?.verdict).toBe("pass");
    expect(trial?.grades[0]?.findings).toMatchObject([
      {
        code: "protocol/conformance-skipped",
        message: expect.stringMatching(
          /: server-initialize, ping, tools-list ran; 29 do not concern this server: .*tools-call-image \(no tool test_image_content\)/,
        ),
      },
    ]);
  },
  limit,
);

it(
  "failures are errors, and what the specification only recommends is a warning",
  async () => {
    const spec = faultyServer("no-ping", "no-description");
    expect(await foundIn(spec, ["server-initialize", "ping", "tools-list"])).toEqual([
      "protocol/conformance: ping: Server responds to ping requests: Failed: MCP error -32601: Method not found",
      "protocol/conformance-advice: tools-list: Server lists available tools with valid structure: Tool 1: missing description",
    ]);
  },
  limit,
);

it("a failure with more than what the specification only recommends is an error", async () => {
  const codesOf = async (message: string): Promise<readonly string[]> => {
    const trial = new TrialEvents();
    const failed = { scenario: "tools-list", check: "tools-list", description: "", status: "FAILURE" };
    trial.emit({ type: "conformance.checked", server: "s", ...failed, message, sources: [] });
    const check: CheckSpec = { kind: "conformance", disable: [] };
    const task: Task = { ...workflowTask(), form: "check", check };
    const findings = await findDefects(readCheck(trial.trajectory(task), check), gradeContext());
    return findings.map(({ code }) => code);
  };
  const advice = "Tool 0: missing description";
  expect(await codesOf(`${advice}; Tool 1: missing description`)).toEqual(["protocol/conformance-advice"]);
  expect(await codesOf(`${advice}; Tool 1: missing name`)).toEqual(["protocol/conformance"]);
});

it(
  "a server with an address is tried through the gateway, transport and the suite's own fixtures included",
  async () => {
    const url = await startAtPort({
      transport: "stdio",
      command: process.execPath,
      args: [conformingServer, "http"],
    });
    const scenarios = ["server-sse-multiple-streams", "tools-call-elicitation", "resources-templates-read"];
    expect(await foundIn(httpSpec(`${url}/mcp`), scenarios)).toEqual([]);
  },
  limit,
);

it(
  "a server that does not answer ends the part",
  async () => {
    const found = await foundIn(faultyServer("silent-list"), ["tools-list", "ping"], { callMs: 500 });
    expect(found).toEqual(["protocol/conformance: tools-list: the scenario did not end in time"]);
  },
  limit,
);

it(
  "scenarios that say nothing about a server are not planned",
  async () => {
    const surface = readSurface([]);
    const nothing = await planConformance(suite, { surface, transport: "stdio", signal });
    expect(nothing.scenarios).toEqual([]);
    const session = { ...surface, protocolVersion: "2025-11-25", capabilities: { tools: {} } };
    const over = async (transport: "stdio" | "shttp"): Promise<readonly string[]> =>
      (await planConformance(suite, { surface: session, transport, signal })).scenarios;
    expect(await over("stdio")).toEqual(["server-initialize", "ping", "tools-list"]);
    expect(await over("shttp")).toEqual([
      "server-initialize",
      "ping",
      "tools-list",
      "server-sse-multiple-streams",
    ]);
  },
  limit,
);

it(
  "a suite that is missing, or of no use, is an error that says what to do",
  async () => {
    const program = `console.log("  - ping\\n  - later"); require("node:fs").appendFileSync(__dirname + "/starts", "1");`;
    using folder = folderOf({ "suite.cjs": program });
    await expect(findConformanceSuite([join(folder.path, "x")])).rejects.toMatchObject({
      code: "usage/invalid-option",
      details: { hint: "Install it: npm install --save-dev @modelcontextprotocol/conformance" },
    });
    const other = { version: "9.0.0", main: join(folder.path, "suite.cjs") };
    const surface = { ...readSurface([]), protocolVersion: "2025-11-25" };
    const plans = [1, 2].map(() => planConformance(other, { surface, transport: "stdio", signal }));
    const [plan] = await Promise.all(plans);
    expect(readFileSync(join(folder.path, "starts"), "utf8")).toBe("1");
    expect(plan).toMatchObject({
      scenarios: ["ping"],
      skipped: [{ scenario: "later", reason: "mcpvals does not know what it needs" }],
    });
    await expect(foundIn(faultyServer(), ["ping"], { of: other })).rejects.toMatchObject({
      code: "check/conformance-suite",
      message: "@modelcontextprotocol/conformance 9.0.0 gave no report on ping",
    });
  },
  limit,
);
