import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { root } from "../support/cli.ts";
import { taskOf, verdictsOf } from "./task-verdicts.ts";

const odd = { command: process.execPath, args: [join(root, "test/fixtures/servers/odd-answers.mjs")] };

/** The verdict of a task that has only this step in verify. */
async function verdictOf(...verify: readonly object[]): Promise<string> {
  const { t = "" } = await verdictsOf({
    "t.json": taskOf("t", {
      ...(JSON.stringify(verify).includes("odd.") ? { servers: { odd } } : {}),
      verify,
    }),
  });
  return t;
}

const unusable = [
  "null",
  "a-text",
  "a-list",
  "an-empty-object",
  "empty-blocks",
  "content-of-another-type",
  "an-empty-error",
  "an-error-without-code",
  "an-error-without-message",
  "an-error-as-a-text",
  "a-null-error",
  "both",
];
const unusableOfTools = ["a-block-without-text", "isError-as-a-text"];

describe("an answer that is not MCP proves nothing, in whatever step holds it (docs/tasks.md, Control flow)", () => {
  const requests = [
    ...[...unusable, ...unusableOfTools].map((tool) => ({ tool })),
    ...unusable.map((prompt) => ({ prompt })),
    ...unusable.map((name) => ({ resource: `odd:${name}` })),
  ];

  it.each<[string, (mcp: object) => object]>([
    ["alone", (mcp) => ({ mcp })],
    ["that must fail", (mcp) => ({ mcp: { ...mcp, expect: { isError: true } } })],
    ["in not", (mcp) => ({ not: { mcp } })],
    ["that must fail, in not", (mcp) => ({ not: { mcp: { ...mcp, expect: { isError: true } } } })],
    ["in not not", (mcp) => ({ not: { not: { mcp } } })],
    ["in allOf in not", (mcp) => ({ not: { allOf: [{ mcp }] } })],
    ["in anyOf in not", (mcp) => ({ not: { anyOf: [{ mcp }] } })],
    ["in not in anyOf", (mcp) => ({ anyOf: [{ not: { mcp } }] })],
    ["in not in foreach", (mcp) => ({ foreach: { var: "x", in: [1], steps: [{ not: { mcp } }] } })],
    ["in not in group", (mcp) => ({ group: { steps: [{ not: { mcp } }] } })],
    ["in not, tried again", (mcp) => ({ not: { mcp: { ...mcp, retry: { for: "1ms" } } } })],
    ["in not, staying so", (mcp) => ({ not: { mcp: { ...mcp, stableFor: "1ms" } } })],
  ])(
    "%s",
    async (_, hold) => {
      const files = requests.map((request, index) => {
        const [[kind, name] = []] = Object.entries(request);
        const spec = { verify: [hold({ server: "odd", ...request })] };
        return [`tasks/${index}.json`, taskOf(`${kind} ${name}`, spec)];
      });
      const config = {
        servers: { odd: { transport: "stdio", ...odd, lifetime: "per_run" } },
        tasks: ["tasks/*.json"],
      };
      const verdicts = Object.entries(
        await verdictsOf({ "mcp-eval.config.json": config, ...Object.fromEntries(files) }),
      );
      expect(verdicts).toHaveLength(requests.length);
      expect(verdicts.filter(([, why]) => !/^error: step .* gave an unusable answer: /.test(why))).toEqual(
        [],
      );
    },
    60_000,
  );

  it("but a refusal and a failure do", async () => {
    expect(await verdictOf({ not: { "odd.a-refusal": {} } })).toMatch(/^pass: not: it does not hold/);
    expect(await verdictOf({ not: { "odd.a-failure": {} } })).toMatch(/^pass: not: it does not hold/);
    expect(await verdictOf({ not: { "odd.a-result": {} } })).toMatch(/^fail: not: it holds/);
  });
});

describe("a call that failed tells nothing of its result (docs/tasks.md, Control flow)", () => {
  const looks: Readonly<Record<string, object>> = {
    text: { text: { contains: "buy milk" } },
    json: { json: { path: "$.state", equals: "bad" } },
    schema: { schema: { type: "object", required: ["state"] } },
    "text, of a call that must not fail": { isError: false, text: "buy milk" },
  };
  const holders: readonly ((step: object) => object)[] = [
    (step) => step,
    (step) => ({ allOf: [step] }),
    (step) => ({ anyOf: [step] }),
    (step) => ({ group: { steps: [step] } }),
    (step) => ({ foreach: { var: "x", in: [1], steps: [step] } }),
  ];

  it.each(Object.entries(looks))("where %s is looked at", async (_, expected) => {
    for (const tool of ["a-refusal", "a-failure", "an-internal-error"]) {
      const verdicts = await Promise.all(
        holders.map((hold) => verdictOf({ not: hold({ [`odd.${tool}`]: { expect: expected } }) })),
      );
      expect(verdicts.filter((verdict) => !/^fail: .*no result: /.test(verdict))).toEqual([]);
    }
  });

  it.each(["an-internal-error", "an-invalid-request"])("nor does %s tell anything at all", async (tool) => {
    for (const request of [{ tool }, { prompt: tool }, { resource: `odd:${tool}` }]) {
      const step = { not: { mcp: { server: "odd", ...request } } };
      const { t } = await verdictsOf({ "t.json": taskOf("t", { servers: { odd }, verify: [step] }) });
      expect(t).toMatch(/^fail: .*the failure shows neither .* expect it instead of using not/);
    }
    expect(await verdictOf({ [`odd.${tool}`]: { expect: { isError: true } } })).toMatch(/^pass: /);
  });

  it("but another value does, and a success where a failure is expected", async () => {
    const passing = [
      { "odd.a-result": { expect: { text: { contains: "buy milk" } } } },
      { "odd.a-result": { expect: { isError: true } } },
      { "odd.a-failure": { expect: { isError: true, text: "gone" } } },
      { "odd.no-text": { expect: { text: { contains: "buy milk" } } } },
    ];
    for (const step of passing)
      expect(await verdictOf({ not: step })).toMatch(/^pass: not: it does not hold/);
  });
});

describe("what a step only made is no evidence, however it is denied (docs/tasks.md, Control flow)", () => {
  const holders: Readonly<Record<string, (step: object) => object>> = {
    not: (step) => ({ not: step }),
    allOf: (step) => ({ allOf: [step] }),
    anyOf: (step) => ({ anyOf: [step] }),
    group: (step) => ({ group: { steps: [step] } }),
    foreach: (step) => ({ foreach: { var: "x", in: [1], steps: [step] } }),
  };
  const made = { file: { path: "{workspace}/x", content: "x" } };
  const removed = { file: { path: "{workspace}/x", absent: true } };
  const unseen = { command: { run: "test -d .", if: "{env.NO}" } };

  it.each(Object.entries({ made, removed }))("%s", async (_, step) => {
    const pairs = Object.entries(holders).flatMap(([outer, hold]) =>
      Object.entries(holders).map(([inner, nest]) => ({
        name: `${outer} ${inner}`,
        step: hold(nest({ not: step })),
      })),
    );
    const files = pairs.map(({ name, step: held }) => [
      `${name}.json`,
      taskOf(name, { env: { NO: "false" }, verify: [held, unseen] }),
    ]);
    const verdicts = Object.entries(await verdictsOf(Object.fromEntries(files)));
    expect(verdicts).toHaveLength(pairs.length);
    expect(verdicts.filter(([, why]) => !/^(?:fail|skip): /.test(why))).toEqual([]);
  });
});

describe("only an exit code that says no lets not pass (docs/tasks.md, Control flow)", () => {
  const command = (run: string, rest: object = {}): object => ({
    command: { run, shell: "/bin/sh", ...rest },
  });
  const script = (inline: string): object => ({ script: { inline: `#!/bin/sh\n${inline}` } });

  it.each<[string, object]>([
    ["a syntax error", command("if then")],
    ["grep without its file", command("grep -q x no-such-file")],
    ["grep with a wrong option", command("grep --no-such-option x /dev/null")],
    ["test with a wrong operator", command("test 1 -gt one")],
    ["a program that is not there", command("no-such-program")],
    ["a file that is no program", command("/dev/null")],
    ["a signal", command("kill -9 $$")],
    ["a signal in the shell", command("sh -c 'kill -15 $$'; exit $?")],
    ["any other code", command("exit 22")],
    ["another code than the one that is expected", command("exit 4", { expect: { exitCode: 3 } })],
    ["a script with any other code", script("exit 2")],
    ["a script that a signal ends", script("kill -9 $$")],
    ["several steps, of which one says no", { allOf: [command("exit 1"), command("exit 2")] }],
    ["a held not", { not: command("exit 2") }],
    ["an anyOf", { anyOf: [command("exit 2"), command("exit 1")] }],
    ["a group", { group: { steps: [command("exit 2")] } }],
    ["a wrong code where the output is looked at", command("exit 1", { expect: { stdout: "b" } })],
    ["a file that is not there", command("cat no-such-file", { expect: { stdout: { contains: "b" } } })],
    ["a wrong code where stderr is looked at", command("exit 1", { expect: { stderr: { contains: "b" } } })],
    ["a foreach", { foreach: { var: "x", in: [1], steps: [command("exit 2")] } }],
  ])("not %s", async (_, step) => {
    expect(await verdictOf({ not: step })).toMatch(/^fail: .*(exited with|ended by)/s);
  });

  it("so 1 does, 0 where another is expected, and an output that is not as expected", async () => {
    const passing = [
      command("exit 1"),
      command("exit 0", { expect: { exitCode: 3 } }),
      command("exit 1", { expect: { exitCode: 3 } }),
      command("echo {task.name}", { expect: { stdout: "b" } }),
      script("exit 1"),
    ];
    expect(await verdictOf(...passing.map((not) => ({ not })))).toMatch(/^pass/);
    expect(await verdictOf({ not: command("exit 3", { expect: { exitCode: 3 } }) })).toMatch(/^fail/);
  });

  it("and another code that is waited for can be expected, which is what the message says", async () => {
    expect(await verdictOf({ not: command("exit 22") })).toContain(
      "it exited with 22, expected 0; the exit code shows neither that it holds nor that it does not; to check for it, expect it instead of using not",
    );
    expect(await verdictOf(command("exit 22", { expect: { exitCode: 22 } }))).toMatch(/^pass/);
  });
});

describe("what a step could not look at lets not pass in no other step either", () => {
  async function url(status: number, body: string): Promise<string> {
    const server = createServer((_, response) => response.writeHead(status).end(body));
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    onTestFinished(() => void server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }

  it.each([500, 502, 503, 504, 429, 408])("an HTTP server that answers %d", async (status) => {
    expect(await verdictOf({ not: { http: { url: await url(status, "") } } })).toMatch(
      new RegExp(`^fail: .*the status is ${status}.*shows neither`),
    );
  });

  it("any other status than the expected one, where more is looked at", async () => {
    for (const expected of [{ body: { contains: "secret" } }, { headers: { "x-a": "b" } }]) {
      const step = { http: { url: await url(404, ""), expect: expected } };
      expect(await verdictOf({ not: step })).toMatch(/^fail: .*the status is 404.*shows neither/);
    }
    const other = { http: { url: await url(200, "fine"), expect: { body: { contains: "secret" } } } };
    expect(await verdictOf({ not: other })).toMatch(/^pass/);
  });

  it("but 404 is a no, and a status that is expected is not", async () => {
    expect(await verdictOf({ not: { http: { url: await url(404, "") } } })).toMatch(/^pass/);
    const down = { http: { url: await url(503, ""), expect: { status: 503 } } };
    expect(await verdictOf(down)).toMatch(/^pass/);
    expect(await verdictOf({ not: down })).toMatch(/^fail/);
  });

  it("a text that is to be JSON and is none", async () => {
    const json = { path: "$.state", equals: "bad" };
    const page = { http: { url: await url(200, "<html>"), expect: { body: { json } } } };
    const line = { command: { run: "echo {task.name}", expect: { stdout: { json } } } };
    const tool = { "odd.a-result": { expect: { json } } };
    for (const step of [page, line, tool]) expect(await verdictOf({ not: step })).toMatch(/^fail: .*JSON/);
  });
});
