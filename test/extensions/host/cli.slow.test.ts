import { hash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../../src/formats/config/config-schema.ts";
import { runHere } from "../../support/cli.ts";
import { expectSameWhenRead, type FaultyRun, startRun } from "../../support/faults.ts";

const program = readFileSync(join(import.meta.dirname, "programs/faulty.mjs"), "utf8");

interface Spec {
  readonly setup?: readonly object[];
  readonly verify?: readonly object[];
  readonly cleanup?: readonly object[];
}

/** Runs one task, whose extension is a file beside the config, with the oracle. */
function start(spec: Spec): FaultyRun {
  const document = {
    apiVersion: "mcp-eval/v1",
    kind: "Task",
    metadata: { name: "task" },
    spec: {
      imports: [{ package: "x", as: "x" }],
      prompt: "Go.",
      solution: [{ say: "gone" }],
      cleanup: [{ "x.ok": {} }],
      ...spec,
    },
  };
  const config: Config = {
    server: { transport: "mock", mock: { tools: { t: { responses: [{ return: "x" }] } } } },
    extensions: { x: { package: "./ext.mjs", env: { NOTES: "{env.NOTES}" } } },
    tasks: ["task.json"],
  };
  return startRun(config, {
    args: ["--agent", "oracle", "--env", "NOTES=notes"],
    files: { "task.json": document, "ext.mjs": program },
  });
}

const asked = ["start", "initialize", "shutdown"];

/** What was asked of the extension in the trial, without process ids; before it, it was asked what it offers. */
function notes({ folder }: FaultyRun): string[] {
  const file = join(folder, "notes");
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8")
    .trim()
    .replaceAll(/start \d+/g, "start")
    .split("\n");
  return asked.every((line, index) => line === lines[index]) ? lines.slice(asked.length) : lines;
}

describe("a run with an extension", () => {
  it("passes, with one process for the trial, and tells which extension it was", async () => {
    using run = start({
      setup: [{ "x.ok": { id: "made", note: "first" } }],
      verify: [{ "x.ok": { note: "{steps.made.outputs.args.note} {agent.output}" } }],
    });
    const ended = await run.ended();
    expect([ended.code, ended.result.verdict, ended.stderr]).toMatchObject([0, "pass", expect.any(String)]);
    expect(notes(run)).toEqual([
      "start",
      "initialize",
      "execute ok in setup",
      "execute ok in verify",
      "execute ok in cleanup",
      "shutdown",
    ]);
    expect(ended.result.environment.extensions).toEqual([
      { name: "x", package: "./ext.mjs", hash: `sha256:${hash("sha256", program)}`, sandbox: "none" },
    ]);
    expect(run.journal()).toContain('"first gone"');
    expect(ended.left).toEqual([]);
    await expectSameWhenRead(run.folder, ended.result);
    const shown = await runHere(["show", "latest", "--trial", "t1"], { cwd: run.folder });
    expect(shown.stdout).toMatch(/x started: \.\/ext\.mjs, json-rpc, sandbox none, pid \d+/);
    expect(shown.stdout).toMatch(/x stderr: ready in no flavour/);
  });

  it("is an error when it crashes, which the end of its stderr explains; cleanup gets a fresh process", async () => {
    using run = start({ verify: [{ "x.exit-3": {} }, { "x.ok": {} }] });
    const ended = await run.ended();
    expect([ended.code, ended.result.trials[0]?.verdict]).toEqual([3, "error"]);
    expect(ended.result.trials[0]?.error).toMatchObject({
      code: "extension/crashed",
      detail: "ready in no flavour\nthe disk is full",
    });
    expect(ended.console).toContain("the disk is full");
    expect(notes(run).slice(2)).toEqual([
      "execute exit-3 in verify",
      "start",
      "initialize",
      "execute ok in cleanup",
      "shutdown",
    ]);
  });

  it("cleans up with a fresh process after an interruption", async () => {
    using run = start({ verify: [{ "x.hang": {} }, { "x.ok": {} }] });
    await expect.poll(() => notes(run).at(-1), { timeout: 100_000 }).toBe("execute hang in verify");
    process.kill(run.cli.child.pid ?? 0, "SIGINT");
    const ended = await run.ended();
    expect([ended.code, ended.result.verdict]).toEqual([130, "interrupted"]);
    expect(notes(run).slice(2)).toEqual([
      "execute hang in verify",
      "cancelled",
      "start",
      "initialize",
      "execute ok in cleanup",
      "shutdown",
    ]);
    expect(ended.left).toEqual([]);
  });
});
