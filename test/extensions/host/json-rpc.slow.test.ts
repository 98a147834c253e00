import { describe, expect, it } from "vitest";
import { McpvalsError } from "../../../src/base/error.ts";
import { noSandbox } from "../../../src/sandbox/sandboxes.ts";
import {
  errorOf,
  expectError,
  isGone,
  play,
  type CallOptions,
  type Played,
} from "../../support/extensions.ts";

function starts(played: Played): number {
  return played.notes().filter((line) => line.startsWith("start ")).length;
}

const details: Readonly<Record<string, string>> = {
  rpc: 'data: {"asked":"execute"}\nready in no flavour',
  "exit-3": "ready in no flavour\nthe disk is full",
};

describe("an extension over JSON-RPC", () => {
  it("is told everything, answers, and is one process a trial", async () => {
    const agent = { output: "done" };
    const config = { id: "{random.id}", list: ["~/x"], n: 1 };
    const spec = { config };
    const played = play("faulty.mjs", { sandbox: noSandbox, spec, trial: { agent, prompt: "Do it." } });
    const { workspace } = played;
    const first = await played.call("ok", { args: { note: "n" }, timeoutMs: 90_000 });
    const { outputs } = first;
    expect(first).toMatchObject({ success: true, message: "fine" });
    expect(outputs).toMatchObject({
      args: { note: "n", size: 7 },
      count: 1,
      settings: { id: "abc", list: ["~/x"], n: 1 },
      context: {
        workdir: workspace.replace(/workspace$/, "task"),
        workspace,
        phase: "verify",
        env: { NAME: "value" },
        timeout: expect.stringMatching(/^\d+m?s$/) as unknown,
        agent: { prompt: "Do it.", output: "done" },
      },
    });
    expect((await played.call("ok")).outputs).toMatchObject({ count: 2, pid: outputs?.["pid"] });
    expect(await played.call("no", { args: { why: "because" } })).toEqual({
      success: false,
      message: "because",
      outputs: { seen: 3 },
    });
    const events = played.eventsOf("extension.started");
    expect(events).toEqual([
      {
        type: "extension.started",
        extension: "x",
        package: "./faulty.mjs",
        protocol: "json-rpc",
        sandbox: "none",
        pid: outputs?.["pid"],
      },
    ]);
    await played[Symbol.asyncDispose]();
    expect(played.eventsOf("extension.stderr")).toEqual([
      { type: "extension.stderr", extension: "x", text: "ready in no flavour\n" },
    ]);
    expect(played.events.at(-1)).toEqual({
      type: "extension.exited",
      extension: "x",
      exitCode: 0,
      signal: null,
      expected: true,
    });
  });

  it.each<readonly [operation: string, code: string, message: RegExp]>([
    ["unasked", "extension/protocol", /answer with the id 99, which was not requested/],
    ["as-text", "extension/protocol", /answer with the id "2", which was not requested/],
    ["twice", "extension/protocol", /answered request 2 twice/],
    ["empty", "extension/protocol", /answered execute of empty without result and without error/],
    ["both", "extension/protocol", /with a result and an error/],
    ["no-result", "extension/protocol", /with an invalid result: success is missing/],
    ["no-jsonrpc", "extension/protocol", /of no-jsonrpc with an invalid message: its jsonrpc is not "2.0"/],
    ["no-json", "extension/protocol", /execute of no-json with an invalid message: it is not JSON/],
    ["flood", "extension/protocol", /floods its stdout with lines that are not messages/],
    ["twins", "extension/protocol", /with an invalid message: it has the key "success" twice/],
    ["deep", "extension/protocol", /nested too deeply/],
    ["null-id", "extension/rpc-error", /answered execute of null-id with the error -32700: cannot read it/],
    ["rpc", "extension/rpc-error", /answered execute of rpc with the error -32601: no such method/],
    ["large", "extension/answer-too-large", /a line of more than 10 MiB in answer to execute of large/],
    [
      "unfinished",
      "extension/protocol",
      /the last line of its stdout without a line end, and ended with exit code 0/,
    ],
    [
      "half-crash",
      "extension/protocol",
      /the last line of its stdout without a line end, and ended with exit code 5/,
    ],
    ["exit-0", "extension/crashed", /ended with exit code 0 before it had answered execute of exit-0/],
    ["exit-3", "extension/crashed", /ended with exit code 3 before it had answered execute of exit-3/],
    ["closes", "extension/protocol", /closed its stdout and went on/],
    ["killed", "extension/crashed", /was ended by SIGKILL before/],
    ["orphan", "extension/crashed", /ended with exit code 0 before it had answered execute of orphan/],
  ])("%s is a fault, after which the next call gets a new process", async (operation, code, message) => {
    const needsProcess = ["closes", "killed", "orphan"].includes(operation);
    await using played = play("faulty.mjs", needsProcess ? { sandbox: noSandbox } : {});
    const error = await expectError(played.call(operation), code, /^extension "x" /);
    expect(error.message).toMatch(message);
    expect(error.details.detail).toContain(details[operation] ?? "ready in no flavour");
    const orphan = played.notes().find((line) => line.startsWith("orphan "));
    if (orphan !== undefined) await isGone(Number(orphan.split(" ")[1]));
    expect((await played.call("ok")).outputs).toMatchObject({ count: 1 });
    expect(starts(played)).toBe(2);
  });

  it("cuts no secret in two, which nobody would find then", async () => {
    await using played = play("faulty.mjs");
    const error = await errorOf(played.call("secrets", { args: { secret: "Qk7-Wm3-Zt9-Pl5" } }));
    const texts = played.eventsOf("extension.invalid_output").map(({ text }) => text);
    const told = [error.details.detail, ...texts].join("\n");
    expect(told).toMatch(/data: .*z z …\n/);
    expect(told).toMatch(/… y{4090}/);
    expect(told).toMatch(/x x …/);
    expect(told).not.toMatch(/Qk7|Pl5/);
  });

  it.each([
    ["old", "extension/version", /speaks version 9\.0\.0 of the protocol, and mcpvals speaks 0\.0\.1/],
    [
      "no-manifest",
      "extension/start-failed",
      /answered initialize with an invalid manifest: .*; it has no extension\.yaml, so it must speak JSON-RPC$/,
    ],
    ["dies", "extension/start-failed", /ended with exit code 4 before it had answered initialize/],
    ["mute", "extension/timeout", /took longer than 200 ms/],
  ])("refuses a program that is %s", async (flavour, code, message) => {
    await using played = play("faulty.mjs", { spec: { env: { FLAVOUR: flavour } } });
    const error = await expectError(
      played.call("ok", { timeoutMs: flavour === "mute" ? 200 : 20_000 }),
      code,
      message,
    );
    if (code === "extension/start-failed")
      expect(error.details.hint).toMatch(/(?:initialize|stderr).*action\|check/);
    expect(error.details.detail).toContain(`ready in ${flavour}`);
  });

  it("stays with its extension.yaml where there is one, and names what the program lacks", async () => {
    const manifest = {
      name: "x",
      version: "1",
      protocol: "json-rpc" as const,
      operations: { ok: { params: { type: "object" }, phases: ["verify"] as const } },
    };
    await using played = play("faulty.mjs", { manifest, spec: { env: { FLAVOUR: "poor" } } });
    expect(await errorOf(played.call("ok"))).toMatchObject({
      code: "extension/protocol",
      message: 'extension "x" does not have the operation ok, which its extension.yaml declares',
    });
    await using dying = play("faulty.mjs", { manifest, spec: { env: { FLAVOUR: "dies" } } });
    expect(await errorOf(dying.call("ok"))).toMatchObject({ code: "extension/crashed" });
  });

  it.each([
    ["missing", {}, "extension/invalid-arguments", /has no operation "missing"/],
    ["constructor", {}, "extension/invalid-arguments", /has no operation "constructor"/],
    ["silent", { phase: "setup" }, "task/extension", /x\.silent is for verify, not for setup/],
    [
      "ok",
      { args: { size: "big" } },
      "extension/invalid-arguments",
      /^invalid arguments of x\.ok: size must be integer, is "big"$/,
    ],
    ["ok", { args: { sice: 1 } }, "extension/invalid-arguments", /sice/],
  ] as const)("does not call %s with %j", async (operation, options: CallOptions, code, message) => {
    await using played = play("faulty.mjs");
    await expectError(played.call(operation, options), code, message);
    expect(played.notes().filter((line) => line.startsWith("execute"))).toEqual([]);
    await played.call("ok");
    expect(starts(played)).toBe(1);
  });

  it("looks at the state in a phase that the operation has", async () => {
    await using played = play("faulty.mjs");
    expect((await played.call("ok", { phase: "probe" })).outputs).toMatchObject({
      context: { phase: "verify" },
    });
    await played.call("write", { phase: "probe", args: { path: `${played.workspace}/f` } });
    expect(played.notes().at(-1)).toBe("execute write in setup");
  });

  it("takes an error that is null for none, and ignores lines that are no messages", async () => {
    await using played = play("faulty.mjs");
    expect(await played.call("error-null")).toEqual({ success: true });
    expect(await played.call("noise")).toEqual({ success: true });
    expect(await played.call("bad-log")).toEqual({ success: true });
    expect(await played.call("no-answer")).toEqual({ success: true });
    expect(played.eventsOf("extension.invalid_output").map(({ text }) => text)).toEqual([
      "Listening on port 80",
      "[1, 2]",
      '{"jsonrpc":"2.0","method":"log","params":{"level":"shout","message":"x"}}',
      '{"id":5,"rate":1}',
      '{"rate":NaN}',
    ]);
  });

  it("records logs, and how many were omitted since they were too large or too many", async () => {
    const played = play("faulty.mjs");
    await played.call("large-log");
    await played.call("logs");
    const log = { type: "extension.log", extension: "x", level: "info" };
    expect(played.eventsOf("extension.log")).toEqual(
      [0, 1, 2].map((index) => ({ ...log, message: `line ${index}`, data: { index } })),
    );
    await played.call("storm");
    await played[Symbol.asyncDispose]();
    expect(played.eventsOf("extension.log")).toHaveLength(1000);
    expect(played.eventsOf("extension.output_omitted")).toEqual([
      { type: "extension.output_omitted", extension: "x", stream: "log", count: 200_004 - 1000 },
    ]);
  });

  it("lets an operation that takes too long cancel, and kills it then", async () => {
    await using played = play("faulty.mjs", { sandbox: noSandbox });
    const hang = async (operation: string, args = {}): Promise<McpvalsError> => {
      await played.call("ok");
      return errorOf(played.call(operation, { timeoutMs: 300, args }));
    };
    const error = await hang("hang");
    expect(error).toMatchObject({ code: "extension/timeout", kind: "timeout" });
    expect(error.message).toBe('extension "x" took longer than 300 ms for hang');
    expect(error.details.detail).toBe("ready in no flavour");
    expect(played.notes()).toContain("cancelled");
    await hang("hang", { stubborn: true });
    await hang("hang-hard");
    expect((await played.call("ok", { phase: "cleanup" })).outputs).toMatchObject({ count: 1 });
    const ends = played.eventsOf("extension.exited").map(({ signal }) => signal);
    expect(ends).toEqual([null, "SIGKILL", "SIGTERM"]);
  });

  it("ends with the reason of the signal, and kills what it had asked", async () => {
    await using played = play("faulty.mjs", { sandbox: noSandbox });
    const controller = new AbortController();
    const reason = new McpvalsError("run/interrupted", "the run was interrupted");
    const work = played.call("hang", { signal: controller.signal });
    await expect.poll(() => played.notes().at(-1)).toBe("execute hang in verify");
    controller.abort(reason);
    expect(await errorOf(work)).toBe(reason);
    expect(played.eventsOf("extension.exited")).toMatchObject([{ expected: false }]);
    expect(await played.call("ok", { phase: "cleanup" })).toMatchObject({ success: true });
  });

  it("does not go on with one that ended between two operations, except in cleanup", async () => {
    await using played = play("faulty.mjs");
    const ended = (count: number): Promise<unknown> =>
      expect.poll(() => played.eventsOf("extension.exited").length).toBe(count);
    await played.call("exit-after");
    await ended(1);
    await expectError(played.call("ok"), "extension/crashed", /ended with exit code 0 between two requests/);
    await played.call("exit-after");
    await ended(2);
    expect(await played.call("ok", { phase: "cleanup" })).toMatchObject({ success: true });
  });

  it("tells the next operation of a second answer that came late", async () => {
    await using played = play("faulty.mjs");
    expect(await played.call("twice-later")).toEqual({ success: true });
    await expect.poll(() => played.eventsOf("extension.invalid_output").length).toBe(1);
    expect((await errorOf(played.call("ok"))).message).toMatch(/answered request 2 twice/);
    expect((await played.call("ok")).outputs).toMatchObject({ count: 1 });
  });

  it.each([
    ["twice-later", "extension/protocol", /answered request 2 twice/],
    ["large-later", "extension/answer-too-large", /a line of more than 10 MiB/],
  ])(
    "tells at the trial's end of %s, also when nothing was asked since",
    async (operation, code, message) => {
      for (const phase of [undefined, "probe", "cleanup"] as const) {
        const played = play("faulty.mjs");
        expect(await played.call(operation)).toEqual({ success: true });
        await expect.poll(() => played.eventsOf("extension.exited").length, { timeout: 100_000 }).toBe(1);
        if (phase !== undefined) expect(await played.call("ok", { phase })).toMatchObject({ success: true });
        await expectError(Promise.resolve(played[Symbol.asyncDispose]()), code, message);
      }
    },
  );

  it("has the ports released that its settings and variables name, before it is started", async () => {
    const released: string[][] = [];
    const releasePorts = (texts: Iterable<string>): Promise<void> => {
      expect(played.events).toEqual([]);
      released.push([...texts]);
      return Promise.resolve();
    };
    const spec = { env: { URL: "http://{random.id}" }, config: { port: "{random.id}" } };
    await using played = play("faulty.mjs", { spec, trial: { releasePorts } });
    await played.call("ok");
    expect(released).toEqual([[expect.any(String), "http://abc", '{"port":"abc"}']]);
  });

  it("calls nothing whose arguments cannot be checked", async () => {
    const params = { type: "object", properties: { note: { $ref: "#/nowhere" } } };
    const operations = { ok: { params, phases: ["verify"] as const } };
    const manifest = { name: "x", version: "1", protocol: "json-rpc" as const, operations };
    await using played = play("faulty.mjs", { manifest });
    await expectError(
      played.call("ok", { args: { note: 3 } }),
      "extension/protocol",
      /^the schema of the arguments of x\.ok cannot be used: /,
    );
    expect(played.events).toEqual([]);
  });

  it("ends one that does not want to", async () => {
    const played = play("faulty.mjs", { sandbox: noSandbox, spec: { env: { FLAVOUR: "clinging" } } });
    await played.call("ok");
    await played[Symbol.asyncDispose]();
    expect(played.eventsOf("extension.exited")).toMatchObject([{ signal: "SIGTERM", expected: true }]);
  });

  it.each([
    ["not at all", {}, undefined],
    ["where it is passed on by its name", { spec: { inheritEnv: ["SHELL_ONLY"] } }, "shell"],
    ["where everything is passed on", { spec: { inheritEnv: true as const } }, "shell"],
    ["as it was given for the run", { given: { SHELL_ONLY: "given" } }, "given"],
    ["as its settings say", { given: { SHELL_ONLY: "given" }, spec: { env: { SHELL_ONLY: "own" } } }, "own"],
  ])("gets a variable of the shell %s", async (_, options, expected) => {
    await using played = play("faulty.mjs", { env: { SHELL_ONLY: "shell" }, ...options });
    const { outputs } = await played.call("ok");
    expect(outputs?.["home"]).toBe(expected);
  });

  it("has one operation at a time", async () => {
    await using played = play("faulty.mjs");
    const results = await Promise.all([played.call("ok"), played.call("ok"), played.call("ok")]);
    expect(results.map(({ outputs }) => outputs?.["count"])).toEqual([1, 2, 3]);
    expect(starts(played)).toBe(1);
  });

  it("says that a program cannot be started", async () => {
    await using played = play("missing-program");
    await expectError(
      played.call("ok"),
      "extension/start-failed",
      /^extension "x" cannot be started: command not found/,
    );
  });
});

describe("an extension that is as strict as the Go SDK", () => {
  it("accepts what it is told, and a line that is too long for it is named", async () => {
    await using played = play("go-like.mjs", { spec: { config: { kubeconfig: "~/.kube/config" } } });
    expect(await played.call("create", { phase: "setup" })).toEqual({
      success: true,
      outputs: { name: "pod", args: "{}" },
    });
    expect(await played.call("create", { args: { a: "x".repeat(60_000) } })).toMatchObject({ success: true });
    const error = await expectError(
      played.call("create", { args: { a: "x".repeat(70_000) } }),
      "extension/crashed",
    );
    expect(error.details.detail).toBe("bufio.Scanner: token too long");
  });
});
