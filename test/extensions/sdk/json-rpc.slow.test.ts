import { expect, test } from "vitest";
import type { Json } from "../../../src/base/json.ts";
import { resultOf } from "../../../src/extensions/sdk/operation.ts";
import { root } from "../../support/cli.ts";
import { extension } from "../../fixtures/extensions/sample.ts";
import { execute, initialize, Program, shutdown } from "./program.ts";

const opened = {
  jsonrpc: "2.0",
  method: "log",
  params: { level: "debug", message: "open", data: { greeting: "hello" } },
};
const { name, version, description, operations } = extension.manifest;
const described = { name, version, protocolVersion: "0.0.1", description, operations };

/** Sends all, then shutdown, and gives what came back besides the log and the answer of a first initialize. */
async function answersTo(...requests: readonly Json[]): Promise<readonly Json[]> {
  const program = new Program();
  program.send(initialize({}, "first"), ...requests, shutdown("last"));
  const { code, stdout } = await program.ended;
  expect(code).toBe(0);
  expect(stdout.slice(0, 2)).toEqual([opened, { jsonrpc: "2.0", id: "first", result: described }]);
  expect(stdout.at(-1)).toEqual({ jsonrpc: "2.0", id: "last", result: {} });
  return stdout.slice(2, -1);
}

function result(id: Json, value: Json): Json {
  return { jsonrpc: "2.0", id, result: value };
}

function error(id: Json, code: number, message: unknown): unknown {
  return { jsonrpc: "2.0", id, error: { code, message } };
}

test("a session: arguments and context reach the operation, what it opened stays, close comes at the end", async () => {
  const program = new Program();
  const context = { workdir: "/tmp", workspace: "/tmp/w", phase: "verify", env: {}, timeout: "1m30s" };
  program.send(
    initialize({ greeting: "hi" }),
    execute(2, "greet", { args: { name: "Ada" }, context }),
    execute(3, "greet", { args: { name: "Bo", times: 5 } }),
    shutdown(4),
  );
  const { code, stdout, stderr } = await program.ended;
  expect(stdout.slice(2)).toEqual([
    result(2, {
      success: true,
      message: "hi Ada",
      outputs: { count: 1, phase: "verify", workdir: "/tmp", timeoutMs: 90_000 },
    }),
    result(3, {
      success: true,
      message: "hi Bo",
      outputs: { count: 6, phase: "setup", workdir: root, timeoutMs: 300_000 },
    }),
    result(4, {}),
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "closed after 6\n" });
});

test("what an operation throws or returns becomes a result, or an error when it cannot know", async () => {
  const names = ["refuse", "break", "unreachable", "returnsFalse", "circular", "slow"];
  expect(await answersTo(...names.map((name) => execute(name, name)))).toEqual([
    result("refuse", { success: false, message: "3 rows, expected 4", outputs: { rows: 3 } }),
    error("break", -32_603, "cannot do it: no such table"),
    error("unreachable", -32_000, "the database cannot be reached"),
    error("returnsFalse", -32_603, "the operation returned false instead of an outcome"),
    error(
      "circular",
      -32_603,
      expect.stringMatching(/^the outputs are not JSON: Converting circular structure/),
    ),
    { jsonrpc: "2.0", method: "log", params: { level: "info", message: "slow is done" } },
    result("slow", { success: true }),
  ]);
});

test("arguments that do not fit, operations that there are not and wrong phases are no crash", async () => {
  expect(
    await answersTo(
      execute(1, "greet"),
      execute(2, "greet", { args: { name: "", times: "x" } }),
      execute(3, "greeet"),
      execute(4, "constructor"),
      execute(5, "refuse", { context: { phase: "setup" } }),
      execute(6, "slow", { args: null, context: null }),
      execute(7, "slow", { args: [] }),
    ),
  ).toEqual([
    error(
      1,
      -32_602,
      "the arguments are not valid: name: Invalid input: expected string, received undefined",
    ),
    error(
      2,
      -32_602,
      "the arguments are not valid: name: Too small: expected string to have >=1 characters; times: Invalid input: expected number, received string",
    ),
    result(3, {
      success: false,
      error: expect.stringMatching(
        /^sample has no operation "greeet"\. Did you mean "greet"\? Known operations: /,
      ) as string,
    }),
    result(4, { success: false, error: expect.stringContaining('no operation "constructor"') as string }),
    error(5, -32_602, "refuse cannot be used in setup, only in verify"),
    { jsonrpc: "2.0", method: "log", params: { level: "info", message: "slow is done" } },
    result(6, { success: true }),
    error(7, -32_602, "args must be an object"),
  ]);
});

test("what is not a request is answered with the code that JSON-RPC has for it", async () => {
  const program = new Program();
  program.send(execute(0, "slow"), initialize({}, null));
  program.write('{"jsonrpc"\n\n[]\n"text"\n');
  program.send(
    { jsonrpc: "1.0", id: 5, method: "execute" },
    { jsonrpc: "2.0", id: {}, method: "execute" },
    { jsonrpc: "2.0", id: 7, method: 7 },
    { jsonrpc: "2.0", id: 8.5, method: "cancel" },
    { jsonrpc: "2.0", id: 9, method: "execute", params: [] },
    { jsonrpc: "2.0", id: 10, method: "execute", params: {} },
    { jsonrpc: "2.0", method: "unknown notification" },
    initialize({}, 11),
    shutdown(null),
  );
  const { stdout, code } = await program.ended;
  expect(code).toBe(0);
  expect(stdout).toEqual([
    error(0, -32_600, "initialize must come first, and succeed"),
    opened,
    result(null, described as unknown as Json),
    error(null, -32_700, expect.stringMatching(/^the line is not valid JSON: /)),
    error(null, -32_600, "a message is an object"),
    error(null, -32_600, "a message is an object"),
    error(5, -32_600, 'jsonrpc must be "2.0"'),
    error(null, -32_600, "id must be a text, a number or null"),
    error(7, -32_600, "method must be a text"),
    error(8.5, -32_601, 'there is no method "cancel"'),
    error(9, -32_602, "params must be an object"),
    error(10, -32_602, "operation must be a text"),
    error(11, -32_600, "initialize was called before"),
    result(null, {}),
  ]);
});

test("initialize is refused for another version, a config that is not valid, and when open fails", async () => {
  const program = new Program();
  const params = { protocolVersion: "0.0.2" };
  program.send(
    { jsonrpc: "2.0", id: 1, method: "initialize", params },
    { jsonrpc: "2.0", id: 2, method: "initialize" },
    initialize({ greeting: 3, port: 1 }, 3),
    initialize({ broken: true }, 4),
    initialize([], 5),
    execute(6, "slow"),
    shutdown(7),
  );
  const { stdout, stderr } = await program.ended;
  expect(stdout).toEqual([
    error(1, -32_602, 'protocolVersion must be "0.0.1", got "0.0.2"'),
    error(2, -32_602, 'protocolVersion must be "0.0.1", got none'),
    error(
      3,
      -32_602,
      'the config is not valid: greeting: Invalid input: expected string, received number; Unrecognized key: "port"',
    ),
    error(4, -32_603, "the extension could not start: the server does not answer: ECONNREFUSED"),
    error(5, -32_602, "config must be an object"),
    error(6, -32_600, "initialize must come first, and succeed"),
    result(7, {}),
  ]);
  expect(stderr).toBe("");
});

test("what a program prints goes to stderr, so that stdout has only messages", async () => {
  const program = new Program();
  program.send(initialize(), execute(2, "print"), shutdown(3));
  const { stdout, stderr } = await program.ended;
  expect(stdout.slice(2)).toEqual([result(2, { success: true }), result(3, {})]);
  expect(stderr).toBe("written\nprinted\nclosed after 0\n");
});

test("lines are read however they are cut, and however long they are", async () => {
  const program = new Program();
  const name = `ü${"x".repeat(1_000_000)}`;
  const lines = [initialize(), execute(2, "greet", { args: { name } }), shutdown(3)];
  const bytes = Buffer.from(lines.map((line) => JSON.stringify(line)).join("\r\n"));
  // Cut in the middle of a character too: its two bytes follow `"name":"`.
  const cut = bytes.indexOf("ü") + 1;
  for (const part of [bytes.subarray(0, 1), bytes.subarray(1, cut), bytes.subarray(cut)]) {
    await new Promise<void>((resolve) => program.child.stdin?.write(part, () => resolve()));
  }
  program.end();
  const { stdout, code } = await program.ended;
  expect(code).toBe(0);
  expect(stdout[2]).toMatchObject({ id: 2, result: { message: `hello ${name}` } });
  // The last line has no end, and the end of stdin ends it.
  expect(stdout.at(-1)).toEqual(result(3, {}));
});

test("an operation that is over its time gets an error, whether or not it heeds its signal", async () => {
  const program = new Program();
  const context = { timeout: "100ms" };
  program.send(
    initialize(),
    execute(2, "wait", { context }),
    execute(3, "neverEnds", { context }),
    shutdown(4),
  );
  const { stdout, stderr, code } = await program.ended;
  const waiting = { jsonrpc: "2.0", method: "log", params: { level: "info", message: "waiting" } };
  expect(stdout.slice(2)).toEqual([
    waiting,
    error(2, -32_000, "the operation did not end within 100ms"),
    waiting,
    error(3, -32_000, "the operation did not end within 100ms"),
    result(4, {}),
  ]);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: "aborted: the operation did not end within 100ms\nclosed after 0\n",
  });
});

test("what is not an outcome never counts as success", async () => {
  for (const outcome of [[], [{ success: true }], "no", 0, { success: "false" }, { success: null }]) {
    await expect(resultOf(() => outcome as unknown as undefined)).rejects.toThrow(TypeError);
  }
  expect(await resultOf(() => undefined)).toEqual({ success: true });
});

test("the end of stdin aborts what runs, closes, and ends the program", async () => {
  const program = new Program();
  program.send(initialize(), execute(2, "wait"));
  await program.messages(3);
  program.end();
  const { code, stderr } = await program.ended;
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: "aborted: the host has closed stdin\nclosed after 0\n",
  });
});

test.skipIf(process.platform === "win32")(
  "SIGTERM does the same, also for an operation that does not heed it",
  async () => {
    const program = new Program();
    program.send(initialize(), execute(2, "neverEnds"));
    await program.messages(3);
    program.child.kill("SIGTERM");
    const { code, stderr } = await program.ended;
    expect({ code, stderr }).toEqual({ code: 143, stderr: "closed after 0\n" });
  },
);

test("an open socket does not keep the program after shutdown, nor after the end of stdin", async () => {
  const stopped = new Program();
  stopped.send(initialize(), execute(2, "listen"), shutdown(3));
  const left = new Program();
  left.send(initialize(), execute(2, "listen"));
  await left.messages(3);
  left.end();
  expect((await stopped.ended).code).toBe(0);
  expect((await left.ended).code).toBe(0);
});

test("a host that reads no more ends the program", async () => {
  const program = new Program();
  program.send(initialize());
  await program.messages(2);
  program.child.stdout?.destroy();
  program.send(execute(2, "greet", { args: { name: "Ada" } }), execute(3, "slow"));
  expect(await program.ended).toMatchObject({ stderr: expect.stringContaining("closed after 1") as string });
});
