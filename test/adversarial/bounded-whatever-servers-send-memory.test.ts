import { once } from "node:events";
import { spawn } from "node:child_process";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import type { RunResult } from "../../src/core/report/result.ts";
import { evaluate } from "../../src/evaluate.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { startRun } from "../support/faults.ts";
import { hostileServer } from "../support/hostile.ts";

// Claim: no trial takes a gigabyte, whatever a server sends, and the run goes on. docs/security.md.

function testsOn(server: Config["server"]): Config {
  return {
    server,
    timeout: 60_000,
    toolHealthSuites: [{ name: "s", tests: [{ name: "attack" }, { name: "calm" }] }],
  };
}

/** Verdict, code and message of each trial. */
function outcomes({ trials }: RunResult): string[] {
  return trials.map(({ verdict, error }) =>
    error === undefined ? verdict : `${verdict} ${error.code}: ${error.message}`,
  );
}

/** Runs in a process of its own and gives its peak memory, in MB, beside what came of it. */
async function measured(
  ...attack: readonly string[]
): Promise<{ outcomes: string[]; peak: number; code: unknown }> {
  using run = startRun(testsOn(hostileServer(...attack)));
  const { result, peak, code } = await run.ended();
  return { outcomes: outcomes(result), peak, code };
}

describe("a trial", () => {
  it("records 128 MiB: whoever sends more ends it, is named, and ends no other", async () => {
    const { outcomes: found, peak, code } = await measured("attack=notes", "count=140", "bytes=9000000");
    expect(found).toEqual([
      'error trial/record-full: a trial records at most 128 MiB, and this one had more: 129 MiB from server "default"',
      "pass",
    ]);
    expect(code).toBe(3);
    expect(peak).toBeLessThan(1000);
  });

  it("counts what values take in memory, which can be twenty times their text", async () => {
    const { outcomes: found, peak } = await measured(
      "attack=notes",
      "payload=members",
      "count=100",
      "bytes=9000000",
    );
    expect(found[0]).toContain("trial/record-full");
    expect(found[1]).toBe("pass");
    expect(peak).toBeLessThan(1000);
  });

  it("counts answers that nobody has asked for", async () => {
    const { outcomes: found, peak } = await measured("attack=answers", "count=200000", "bytes=2000");
    expect(found[0]).toContain("trial/record-full");
    expect(found[1]).toBe("pass");
    expect(peak).toBeLessThan(1000);
  });
});

describe("a message", () => {
  const nested =
    'error server/protocol-error: server "default" sent a message nested more than 400 levels deep';
  const heavy =
    'error server/message-too-large: server "default" sent a message of so many values that it would take more than 128 MiB of memory';

  it.each([
    ["objects", heavy],
    ["arrays", heavy],
    ["deep", nested],
  ])("of %s is measured before it is parsed", async (payload, expected) => {
    const server = hostileServer("attack=result", `payload=${payload}`, "bytes=10000000");
    const result = await evaluate(testsOn(server), { output: false });
    expect(outcomes(result)).toEqual([expected, "pass"]);
  });

  it.each(["shttp", "sse"] as const)("over %s is measured too", async (transport) => {
    const url = await hostileAddress(transport, "attack=result", "payload=objects", "bytes=10000000");
    const result = await evaluate(testsOn({ transport, url }), { output: false });
    expect(outcomes(result)).toEqual([heavy, "pass"]);
  });
});

/** Starts a server with an address that attacks as told; it ends with the test. */
async function hostileAddress(transport: "shttp" | "sse", ...attack: readonly string[]): Promise<string> {
  const { command, args } = hostileServer(transport === "sse" ? "sse" : "http", ...attack);
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [port] = (await once(child.stdout.setEncoding("utf8"), "data")) as [string];
  return `http://127.0.0.1:${port.trim()}/mcp`;
}

describe("over HTTP", () => {
  it("the body of an error is read to 64 KiB, though it has ten gigabytes", async () => {
    const url = await hostileAddress("shttp", "attack=status", "count=1000", "bytes=10000000");
    const result = await evaluate(testsOn({ transport: "shttp", url }), { output: false });
    expect(result.trials.map(({ verdict }) => verdict)).toEqual(["fail", "pass"]);
  });

  it("a body that unpacks to 100 MB is refused at the limit of a message", async () => {
    const url = await hostileAddress("shttp", "attack=gzip", "bytes=100000000");
    const result = await evaluate(testsOn({ transport: "shttp", url }), { output: false });
    expect(outcomes(result)).toEqual([
      'error server/message-too-large: server "default" sent a message of more than 10485760 bytes',
      "pass",
    ]);
  });
});

describe("a list that never ends", () => {
  it("of tools makes the server one that did not start", async () => {
    const server = hostileServer("attack=pages", "count=100000000");
    const result = await evaluate(testsOn(server), { output: false });
    expect(outcomes(result)[0]).toMatch(
      /^error server\/protocol-error: .* tools\/list has more than 1000 pages$/,
    );
  });
});

describe("a schema", () => {
  it("of 200,000 properties is unusable at once, and the next one is not", async () => {
    await using validator = new SchemaValidator();
    const properties = Object.fromEntries(
      Array.from({ length: 200_000 }, (_none, index) => [`p${index}`, { type: "string" }]),
    );
    expect(await validator.validate({ type: "object", properties }, { p0: "x" })).toEqual({
      status: "unusable",
      reason: "it has more than 20,000 parts",
    });
    expect(await validator.validate({ type: "object" }, {})).toEqual({ status: "valid" });
  });
});
