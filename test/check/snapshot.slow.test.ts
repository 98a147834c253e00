import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import type { JsonObject } from "../../src/base/json.ts";
import type { RunResult } from "../../src/model/result.ts";
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
      instructions: "",
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

it("a command is found by the name that the server gives itself, when its folder has another name", async () => {
  const program = `import ${JSON.stringify(pathToFileURL(faultyProgram).href)};`;
  using folder = folderOf({ "first/server.mjs": program, "second/server.mjs": program });
  const file = join(folder.path, "servers.json");
  const check = (name: string, ...flags: readonly string[]): Promise<HereOutcome> => {
    const args = ["check", "--calls", "none", "--snapshot", file, ...flags, "--", "node", "server.mjs"];
    return runHere(args, { cwd: join(folder.path, name) });
  };
  expect(await check("first", "--update")).toMatchObject({ code: 0 });
  const written = readFileSync(file, "utf8");
  expect(Object.keys(JSON.parse(written) as object)).toEqual(["first"]);
  expect(await check("second")).toMatchObject({ code: 0 });
  expect(await check("second", "--update")).toMatchObject({ code: 0 });
  expect(readFileSync(file, "utf8")).toBe(written);
  // Two entries with that name cannot be told apart.
  const { first } = JSON.parse(written) as { readonly first: object };
  writeFileSync(file, JSON.stringify({ first, third: first }));
  expect(await check("second")).toMatchObject({ code: 1 });
});

it("each difference of a definition is a finding, up to 20", async () => {
  const parameters = Array.from({ length: 30 }, (_, index) => [`p${index}`, { type: "number" }]);
  const annotations = { readOnlyHint: true };
  const inputSchema = { type: "object", properties: Object.fromEntries(parameters) as JsonObject };
  const tools = [
    { name: "word", description: "Gives a word.", inputSchema: { type: "object" }, annotations },
    { name: "huge", description: "Gives the word huge.", inputSchema, annotations },
  ];
  const found = await findingsIn("stability", faultyServer("huge-schema=30"), { snapshot: { tools } });
  const of = (name: string): readonly (string | undefined)[] =>
    found.filter(({ place }) => place.tool === name).map(({ place }) => place.pointer);
  expect(of("word")).toEqual([
    "/description",
    "/inputSchema/properties",
    "/inputSchema/additionalProperties",
  ]);
  expect(of("huge")).toHaveLength(21);
  expect(found.at(-1)?.message).toBe("it has more than 20 differences from the snapshot");
});

it("a snapshot that cannot be written is an error of the output", async () => {
  using folder = folderOf({ "config.json": { servers: { faulty: mocked("word") } }, file: "" });
  const args = ["check", "config.json", "--update", "--snapshot", "file/servers.json"];
  const stderr = expect.stringContaining("(store/unwritable)") as unknown;
  expect(await runHere(args, { cwd: folder.path })).toMatchObject({ code: 2, stderr });
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

/** A server with instructions, and with a number in its schema that is written so. */
const numbered = `
import { createInterface } from "node:readline";
const [instructions, most] = process.argv.slice(2);
const result = {
  initialize: ({ protocolVersion }) => JSON.stringify({
    protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "numbered", version: "1" }, instructions,
  }),
  ping: () => "{}",
  "tools/list": () => '{"tools":[{"name":"count","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":' + most + "}}}}]}",
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line.startsWith('{"jsonrpc":"2.0"') && line.endsWith("}") ? line : "{}");
  if (id === undefined) return;
  const body = result[method] === undefined ? '"error":{"code":-32601,"message":"no"}' : '"result":' + result[method](params);
  console.log('{"jsonrpc":"2.0","id":' + id + "," + body + "}");
});
`;

it("compares instructions, and integers that a number cannot hold", async () => {
  using folder = folderOf({ "server.mjs": numbered });
  const check = async (args: readonly string[], ...flags: readonly string[]): Promise<readonly unknown[]> => {
    const { stdout } = await runHere(
      [
        "check",
        "--reporter",
        "json",
        "--snapshot",
        "s.json",
        ...flags,
        "--",
        process.execPath,
        "server.mjs",
        ...args,
      ],
      { cwd: folder.path },
    );
    return differences(JSON.parse(stdout) as RunResult);
  };
  expect(await check(["Count.", "9223372036854775807"], "--update")).toEqual([]);
  expect(readFileSync(join(folder.path, "s.json"), "utf8")).toContain('"maximum": "9223372036854775807"');
  expect(await check(["Count.", "9223372036854775807"])).toEqual([]);
  expect(await check(["Count.", "9223372036854775806"])).toEqual([
    ["count", 'it is "9223372036854775806", expected "9223372036854775807" (compared with the snapshot)'],
  ]);
  expect(await check(["Delete all.", "9223372036854775807"])).toEqual([
    [undefined, 'it is "Delete all.", expected "Count." (compared with the snapshot)'],
  ]);
  const rounded = readFileSync(join(folder.path, "s.json"), "utf8").replace(
    /"(9\d+)"/,
    "9223372036854776000",
  );
  writeFileSync(join(folder.path, "s.json"), rounded);
  expect(await check(["Count.", "9223372036854775807"])).toEqual([]);
});

it("refuses a snapshot with servers that the file does not have, and removes them with --update", async () => {
  using folder = folderOf({});
  const check = (servers: object, ...flags: readonly string[]): Promise<HereOutcome> => {
    writeFileSync(join(folder.path, "config.json"), JSON.stringify({ servers }));
    return runHere(["check", "config.json", "--calls", "none", "--snapshot", "s.json", ...flags], {
      cwd: folder.path,
    });
  };
  const [a, b] = [mocked("one"), mocked("two")];
  expect(await check({ a, b }, "--update")).toMatchObject({ code: 0 });
  expect(await check({ a, b }, "--server", "a")).toMatchObject({ code: 0 });
  expect(await check({ a })).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/s\.json has b, and .*config\.json has no enabled server/) as unknown,
  });
  expect(await check({ a }, "--update")).toMatchObject({ code: 0 });
  expect(await check({ a })).toMatchObject({ code: 0 });
});
