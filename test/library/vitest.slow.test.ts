import { randomUUID } from "node:crypto";
import { copyFileSync, cpSync, globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { folderOf, installPackage, root, runShell } from "../support/cli.ts";
import { exampleServer } from "../support/programs.ts";

/** A test as Vitest reported it. */
interface Told {
  readonly status: string;
  readonly message: string;
}

interface ToldFile extends Told {
  readonly tests: ReadonlyMap<string, Told>;
}

interface VitestReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly status: string;
    readonly assertionResults: readonly {
      readonly title: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

describe("mcpvals/vitest, built, in a project of its own", { timeout: 120_000 }, () => {
  const packages = ["vitest", "@modelcontextprotocol/server", "@types"];
  const project = folderOf({
    "package.json": { name: "project", private: true, type: "module" },
    "vitest.config.js": `export default { test: { include: ["*.test.ts", "*.spec.ts"], testTimeout: 60_000, maxWorkers: 1 } };`,
    "tsconfig.json": {
      compilerOptions: {
        module: "nodenext",
        target: "es2024",
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        types: ["node"],
      },
      include: ["*.ts"],
    },
    "every-entry.ts": ["mcpvals", "mcpvals/extension", "mcpvals/next"]
      .map((name, index) => `export * as entry${index} from "${name}";\n`)
      .join(""),
  });
  const cwd = project.path;
  const tag = `--tag=${randomUUID()}`;
  beforeAll(() => {
    installPackage(cwd, packages);
    for (const folder of ["examples/vitest", "test/fixtures/vitest-project"])
      cpSync(join(root, folder), cwd, { recursive: true });
    copyFileSync(exampleServer, join(cwd, "server.js"));
  });
  afterAll(() => project[Symbol.dispose]());

  async function runVitest(args: string): Promise<{
    readonly code: number | null;
    readonly files: ReadonlyMap<string, ToldFile>;
  }> {
    const env = {
      FIXTURE_SERVER: join(root, "test/fixtures/servers/fixture-server.mjs"),
      FIXTURE_TAG: tag,
    };
    const { code, stderr } = await runShell(`vitest run --reporter=json --outputFile=report.json ${args}`, {
      cwd,
      env,
    });
    const report = ((): VitestReport => {
      try {
        return JSON.parse(readFileSync(join(cwd, "report.json"), "utf8")) as VitestReport;
      } catch (cause) {
        throw new Error(stderr, { cause });
      }
    })();
    const files = report.testResults.map(({ name, status, message, assertionResults }) => {
      const tests = assertionResults.map(
        (test) => [test.title, { status: test.status, message: test.failureMessages.join("\n") }] as const,
      );
      return [name.split("/").at(-1) ?? "", { status, message, tests: new Map(tests) }] as const;
    });
    return { code, files: new Map(files) };
  }

  let all: Awaited<ReturnType<typeof runVitest>>;
  beforeAll(async () => {
    all = await runVitest(
      "server.test.ts eval.test.ts failing.spec.ts eval.spec.ts skipped.spec.ts wrong.spec.ts",
    );
    expect(all.code).toBe(1);
  });

  it("passes for a good server, in the example", () => {
    const files = ["server.test.ts", "eval.test.ts"].map((name) => all.files.get(name));
    expect(files.map((file) => file?.status)).toEqual(["passed", "passed"]);
    const tests = files.flatMap((file) => [...(file?.tests ?? [])]);
    expect(tests.filter(([, { status }]) => status !== "passed")).toEqual([]);
    expect(tests.length).toBe(6);
  });

  it("fails with what was sent and what came back, for all that goes wrong", () => {
    const tests = all.files.get("failing.spec.ts")?.tests ?? new Map<string, Told>();
    const said = {
      "toSucceed: isError": ["the request failed", "sent      fail {}", "isError   it went wrong"],
      "toSucceed: JSON-RPC error": ["error     not today (code -32042)"],
      "toSucceed: negated": ["the request succeeded", 'sent      add {"a":2,"b":3}', "result    2 + 3 = 5"],
      "toSucceed: a promise": ["write await"],
      "toFailWith: a result": ["the request succeeded"],
      "toFailWith: another text": ["the request failed, but not with /timed out/", "it went wrong"],
      "toHaveText: another text": ['the result lacks the text "= 6"', "2 + 3 = 5"],
      "toHaveText: the empty text": ["the empty text is in every text"],
      "toHaveText: negated": ["the result has the text /= \\d/"],
      "toHaveText: a failed call": ["the request failed, so that it has no text to compare"],
      "toHaveText: a failed call, negated": ["the request failed, so that it has no text to compare"],
      "toMatchOutputSchema: violated": ["violates its outputSchema", "sum", 'json      {"total":"five"}'],
      "toMatchOutputSchema: none declared, negated": ["declares no outputSchema"],
      "callTool: crash": ["code 7", "out of luck"],
      "callTool: no answer": ['tool "slow" did not answer within 1000 ms'],
      "callTool: unusable answer": ["unusable answer"],
      "callTool: a secret": ["the token is [", "API_TOKEN"],
      "callTool: after stop": ["the server was stopped; call start()"],
      "startServer: several servers": ["several servers: one, two", "{ server:"],
      "startServer: exit at start": ["code 3", "no licence"],
      "toHaveFinding: other findings": [
        'the check has no finding with code "definition/no-description", tool "add"\n\n',
        "tool add",
      ],
      "toHaveFinding: negated": ['the check has a finding with severity "info"\n\ninfo  '],
      "toHaveFinding: misspelt": ['Did you mean "definition/no-description"?'],
      "toHaveFinding: no evidence, negated": ["the check is incomplete"],
    };
    const passed = ["callTool: after a crash"];
    for (const [title, parts] of Object.entries(said))
      for (const part of parts)
        expect([title, tests.get(title)?.message]).toEqual([title, expect.stringContaining(part)]);
    expect([...tests].filter(([, { status }]) => status === "passed").map(([title]) => title)).toEqual(
      passed,
    );
    expect(tests.size).toBe(Object.keys(said).length + passed.length);
  });

  it("shows the trials of an eval as tests, with their evidence, and is never green without", () => {
    const { files } = all;
    const specs = [...files].filter(([name]) => name.endsWith(".spec.ts"));
    const tests = new Map(specs.flatMap(([, file]) => [...file.tests]));
    expect([...tests].map(([title, { status }]) => [title, status])).toEqual(
      expect.arrayContaining([
        ["suite › add › right", "passed"],
        ["suite › add › wrong", "failed"],
        ["suite › add › broken", "failed"],
        ["needs-a-program", "skipped"],
      ]),
    );
    const { message: wrong = "" } = tests.get("suite › add › wrong") ?? {};
    for (const part of [
      "Trial: failed",
      "expected 6",
      'call      add {"a":2,"b":3}',
      "mcpvals show",
      "eval.spec.ts",
    ])
      expect(wrong).toContain(part);
    const { message: broken = "" } = tests.get("suite › add › broken") ?? {};
    for (const part of ["not judged (error)", "server/spawn-failed", "no-such-program"])
      expect(broken).toContain(part);
    expect(files.get("skipped.spec.ts")).toMatchObject({ status: "failed" });
    expect(files.get("wrong.spec.ts")).toMatchObject({
      status: "failed",
      message: expect.stringContaining("no-such-config.yaml") as string,
    });
  });

  it("runs only what Vitest selects, also without isolation of files", async () => {
    const before = readdirSync(join(cwd, ".mcpvals/runs"));
    const { code } = await runVitest(`eval.spec.ts server.test.ts --no-isolate -t "right|adds"`);
    const [added = "", ...others] = readdirSync(join(cwd, ".mcpvals/runs")).filter(
      (id) => !before.includes(id),
    );
    expect(others).toEqual([]);
    const result = readFileSync(join(cwd, ".mcpvals/runs", added, "result.json"), "utf8");
    expect(JSON.parse(result)).toMatchObject({ verdict: "pass", summary: { total: 1, pass: 1 } });
    expect(code).toBe(0);
  });

  it("stops every server", () => {
    const commands = globSync("/proc/[0-9]*/cmdline").map((file) => {
      try {
        return readFileSync(file, "utf8");
      } catch {
        return "";
      }
    });
    expect(commands.filter((command) => command.includes(tag))).toEqual([]);
  });

  // All declarations are checked, those of packages included.
  it("has types, also for its matchers, beside those of every other entry point", async () => {
    const { code, stdout } = await runShell("tsc -p .", { cwd });
    expect([code, stdout]).toEqual([0, ""]);
  });
});
