import { join } from "node:path";
import { parse } from "yaml";
import { expect, test } from "vitest";
import { parseManifest } from "../../../src/extensions/manifest.ts";
import { folderOf } from "../../support/cli.ts";
import { extension } from "../../fixtures/extensions/sample.ts";
import { execute, Program, type ProgramEnd } from "./program.ts";

/** Runs one operation with an input file. */
async function once(words: readonly string[], input: unknown): Promise<ProgramEnd> {
  using folder = folderOf({ "input.json": input });
  const args = [...words, "--input", join(folder.path, "input.json")];
  return await new Program(args, folder.path).ended;
}

test("action and check run one operation: one result on stdout, and the exit code says the same", async () => {
  const context = { workdir: "/tmp", env: {} };
  const done = await once(["action", "greet"], {
    args: { name: "Ada" },
    context,
    config: { greeting: "hi" },
  });
  expect(done.code).toBe(0);
  const outputs = { count: 1, phase: "setup", workdir: "/tmp", timeoutMs: 300_000 };
  expect(done.stdout).toEqual([{ success: true, message: "hi Ada", outputs }]);
  expect(done.stderr).toBe('debug: open {"greeting":"hi"}\nclosed after 1\n');
  const refused = await once(["check", "refuse"], { args: {}, context });
  expect(refused.code).toBe(1);
  expect(refused.stdout).toEqual([{ success: false, message: "3 rows, expected 4", outputs: { rows: 3 } }]);
});

test("the phase is that of the context, else what the verb stands for", async () => {
  for (const [verb, context, phase] of [
    ["check", {}, "verify"],
    ["action", { phase: "cleanup" }, "cleanup"],
  ] as const) {
    const { stdout } = await once([verb, "greet"], { args: { name: "Ada" }, context });
    expect(stdout).toMatchObject([{ outputs: { phase } }]);
  }
});

test("an unknown operation is a failure", async () => {
  const { code, stdout } = await once(["action", "greeet"], {});
  const error: unknown = expect.stringContaining('sample has no operation "greeet"');
  expect({ code, stdout }).toEqual({ code: 1, stdout: [{ success: false, error }] });
});

test("an error is reported on stderr, without a result", async () => {
  const greet = ["action", "greet"];
  const problems: readonly [readonly string[], unknown, string][] = [
    [["action", "refuse"], {}, "refuse cannot be used in setup or cleanup, only in verify"],
    [greet, {}, "the arguments are not valid: name: "],
    [greet, "{", "input.json is not valid JSON"],
    [greet, "3", "input.json must be an object"],
    [greet, { args: 3 }, "args must be an object"],
    [[...greet, "--config", "{"], {}, "--config is not valid JSON"],
    [[...greet, "--config", '{"greeting":1}'], {}, "the config is not valid: greeting: "],
    [["action"], {}, "action needs the name of an operation"],
    [greet, { config: { broken: true } }, "the server does not answer: ECONNREFUSED"],
    [["check", "unreachable"], {}, "the database cannot be reached"],
    [["check", "break"], {}, "cannot do it: no such table"],
    [["check", "circular"], {}, "the outputs are not JSON"],
  ];
  const missing = new Program([...greet, "--input", "/nowhere/input.json"]).ended;
  const unknown = new Program(["serve"]).ended;
  const ends = await Promise.all([missing, unknown, ...problems.map(([words, input]) => once(words, input))]);
  const texts = ["/nowhere/input.json cannot be read: ENOENT", "sample: unknown command serve. Use sample"];
  const expected = [...texts, ...problems.map(([, , text]) => text)];
  for (const [index, { code, stdout, stderr }] of ends.entries()) {
    expect({ code, stdout }).toEqual({ code: 1, stdout: [] });
    expect(stderr).toContain(expected[index]);
  }
});

test("--config before --input's file: the argument wins", async () => {
  const input = { args: { name: "Ada" }, config: { greeting: "hi" } };
  const { stdout } = await once(["action", "greet", '--config={"greeting":"welcome"}'], input);
  expect(stdout).toMatchObject([{ message: "welcome Ada" }]);
});

test("--config alone starts with it, and answers until stdin ends", async () => {
  const program = new Program(["--config", '{"greeting":"hi"}']);
  program.send(execute(1, "slow"), execute(2, "greet", { args: { name: "Ada" } }));
  program.end();
  const { code, stdout, stderr } = await program.ended;
  expect(stdout.slice(1)).toMatchObject([
    { method: "log", params: { message: "slow is done" } },
    { id: 1, result: { success: true } },
    { id: 2, result: { success: true, message: "hi Ada" } },
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "closed after 1\n" });
});

test("a --config that cannot be used ends the program with a sentence", async () => {
  const program = new Program(["--config", '{"broken":true}']);
  expect(await program.ended).toEqual({
    code: 1,
    stdout: [],
    stderr: "sample: the extension could not start: the server does not answer: ECONNREFUSED\n",
  });
});

test("--manifest prints an extension.yaml that says the same", async () => {
  const { code, stdout } = await new Program(["--manifest"]).ended;
  expect(code).toBe(0);
  expect(parseManifest(parse(stdout.map(String).join("\n")))).toEqual({
    ok: true,
    manifest: extension.manifest,
  });
});
