import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/core/report/result.ts";
import { faultyServer, findingsIn } from "./support.ts";
import { folderOf, type HereOutcome, root, runHere } from "../support/cli.ts";

const faultyProgram = join(root, "test/fixtures/servers/faulty-server.mjs");

/** A server that is mocked, with tools of the given names. */
function mocked(...names: readonly string[]): object {
  const tool = {
    description: "Gives a word.",
    inputSchema: { type: "object" },
    responses: [{ return: "word" }],
  };
  const tools = Object.fromEntries(names.map((name) => [name, tool]));
  return { transport: "mock", mock: { tools } };
}

it("--snapshot: definitions are written with --update, and a difference from them fails the check", async () => {
  using folder = folderOf({});
  const check = (faulty: object, ...flags: readonly string[]): Promise<HereOutcome> => {
    writeFileSync(join(folder.path, "config.json"), JSON.stringify({ servers: { faulty } }));
    const args = ["check", "config.json", "--reporter", "json", "--snapshot", "snapshots/servers.json"];
    return runHere([...args, ...flags], { cwd: folder.path });
  };
  const server = mocked("tool_0", "word");
  expect(await check(server)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("there is no snapshot snapshots/servers.json") as unknown,
  });
  expect(await check(server, "--update")).toMatchObject({
    code: 0,
    stderr: "Wrote snapshots/servers.json: faulty (2 tools)\n",
  });
  const written: unknown = JSON.parse(readFileSync(join(folder.path, "snapshots/servers.json"), "utf8"));
  const named = (name: string): unknown => expect.objectContaining({ name });
  expect(Object.values(written as object)).toEqual([
    {
      server: "faulty",
      tools: [named("tool_0"), named("word")],
      resources: [],
      resourceTemplates: [],
      prompts: [],
    },
  ]);
  expect(await check(server)).toMatchObject({ code: 0 });
  const { code, stdout } = await check(mocked("started", "word"));
  expect(code).toBe(1);
  expect(differences(JSON.parse(stdout) as RunResult)).toEqual([
    ["tool_0", "it is gone: only the snapshot has it"],
    ["started", "new: the snapshot lacks it"],
  ]);
});

it("a list that is refused is not taken for an empty one", async () => {
  const snapshot = { tools: [{ name: "word" }] };
  const findings = await findingsIn("stability", faultyServer("refuses-list=1"), { snapshot });
  expect(findings.map(({ code, message }) => `${code}: ${message}`)).toEqual([
    'stability/snapshot: tools/list got the error -32602 "Too many requests", so that it cannot be compared with the snapshot',
    'stability/not-compared: tools/list got the error -32602 "Too many requests"',
  ]);
});

it("--update writes what the server lists now, also nothing, and keeps lists that it does not give", async () => {
  using folder = folderOf({});
  const check = (faulty: object, ...flags: readonly string[]): Promise<HereOutcome> => {
    writeFileSync(join(folder.path, "config.json"), JSON.stringify({ servers: { faulty } }));
    const args = ["check", "config.json", "--calls", "none", "--snapshot", "servers.json"];
    return runHere([...args, ...flags], { cwd: folder.path });
  };
  const program = (fault: string): object => {
    return { transport: "stdio", command: process.execPath, args: [faultyProgram, fault] };
  };
  const tools = (): unknown[] =>
    Object.values(JSON.parse(readFileSync(join(folder.path, "servers.json"), "utf8")) as object).map(
      (listing) => (listing as { tools: unknown[] }).tools.length,
    );
  expect(await check(mocked("word"), "--update")).toMatchObject({ code: 0 });
  expect(await check(program("refuses-list=1"), "--update")).toMatchObject({ code: 1 });
  expect(tools()).toEqual([1]);
  expect(await check(program("no-tools"), "--update")).toMatchObject({
    code: 0,
    stderr: "Wrote servers.json: faulty (nothing)\n",
  });
  expect(tools()).toEqual([0]);
  expect(await findingsIn("stability", faultyServer("no-tools"), { snapshot: { tools: [] } })).toEqual([]);
});

it("--update leaves other servers in the file, and refuses one that has the name of another", async () => {
  using folder = folderOf({
    "mcp-eval.config.json": { servers: { faulty: mocked("word"), notes: mocked("title") } },
    "other.json": { mcpServers: { notes: { command: process.execPath, args: [faultyProgram] } } },
  });
  const check = (...args: readonly string[]): Promise<HereOutcome> =>
    runHere(["check", "--calls", "none", "--snapshot", "servers.json", ...args], { cwd: folder.path });
  const names = (): readonly string[] =>
    Object.keys(JSON.parse(readFileSync(join(folder.path, "servers.json"), "utf8")) as object);
  expect(await check("--update")).toMatchObject({ code: 0 });
  expect(names()).toEqual(["faulty", "notes"]);
  expect(await check("--update", "--server", "notes")).toMatchObject({ code: 0 });
  expect(names()).toEqual(["faulty", "notes"]);
  const refused = expect.stringMatching(
    /servers\.json has another server "notes": it calls itself "/,
  ) as unknown;
  for (const flags of [["--update"], []])
    expect(await check("other.json", ...flags)).toMatchObject({ code: 2, stderr: refused });
});

it("--update without --snapshot is a usage error", async () => {
  using folder = folderOf({});
  const outcome = await runHere(["check", "--update", "--", "true"], { cwd: folder.path });
  expect(outcome).toMatchObject({ code: 2, stderr: expect.stringContaining("no file is named") as unknown });
});

function differences({ trials }: RunResult): unknown[] {
  const findings = trials.flatMap(({ grades }) => grades.flatMap((grade) => grade.findings ?? []));
  return findings
    .filter(({ code }) => code === "stability/snapshot")
    .map(({ place, message }) => [place.tool, message]);
}
