import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, linkPackage, root, runInline, runShell } from "../support/cli.ts";
import {
  type FakeProvider,
  type FakeReply,
  type FakeScript,
  startFakeProvider,
} from "../support/fake-provider.ts";
import { closedAddress, fixtureServer, gradesOf, trialOf } from "./support.ts";

const everything = join(root, "node_modules/@modelcontextprotocol/server-everything/dist/index.js");

/** The specification's example, as it stands: nothing that its ConfigSchema lacks. */
function specificationConfig(server: object): object {
  return {
    server,
    workflows: [
      {
        name: "greet and add",
        description: "Two steps of one conversation.",
        steps: [
          { user: "Say hello through the echo tool.", expectTools: ["echo"], expectedState: "ECHO: HELLO" },
          { user: "Now add 2 and 3.", expectTools: ["get-sum"], expectedState: "five" },
        ],
      },
    ],
    llmJudge: true,
    openaiKey: "the-key-for-the-judge",
  };
}

/** Claude plays the workflow; GPT-4o judges it. */
const playSpecification: FakeScript = (request) => {
  if (request.model === "gpt-4o") return { text: '{"score": 0.9, "reason": "Both were done."}' };
  const results = request.toolResults.map((result) => result.text);
  if (request.users.length === 1) {
    return results.length === 0
      ? { tool: "echo", args: { message: "hello" } }
      : { text: `It answered: ${results.at(-1)}` };
  }
  return results.length === 1
    ? { tool: "get-sum", args: { a: 2, b: 3 } }
    : { text: `Five, for the tool said: ${results.at(-1)}` };
};

/** The provider as Claude by its variable and as the judge by its own; the judge's key is the config's. */
function asClaudeAndJudge(provider: FakeProvider): Readonly<Record<string, string>> {
  return {
    ANTHROPIC_BASE_URL: provider.url,
    ANTHROPIC_API_KEY: "the-key-for-claude",
    OPENAI_BASE_URL: provider.url,
  };
}

const specifiedGrades = {
  "end-to-end-success": "pass 1",
  "tool-invocation-order": "pass 1",
  "tool-call-health": "pass 1",
  "llm-judge": "pass 0.9",
};

describe("the specification", () => {
  it("its command line, on its JSON config, with Claude and the judge", async () => {
    await using provider = await startFakeProvider(playSpecification);
    const server = { transport: "stdio", command: "node", args: [everything, "stdio"] };
    using folder = folderOf({ "mcp-eval.config.json": specificationConfig(server) });
    linkPackage(folder.path);
    const options = { cwd: folder.path, env: asClaudeAndJudge(provider) };
    const run = await runShell("npx mcpvals run --config ./mcp-eval.config.json", options);
    expect(run).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^note: never seen to fail .*greet and add/) as string,
    });
    expect(run.stdout).toMatch(/✓ greet and add/);
    expect(run.stdout).toMatch(/^ {2}PASS$/m);

    const runs = join(folder.path, ".mcpvals/runs");
    const [id = ""] = readdirSync(runs);
    const result = JSON.parse(readFileSync(join(runs, id, "result.json"), "utf8")) as RunResult;
    const trial = trialOf(result, "greet and add");
    expect(gradesOf(trial)).toEqual(specifiedGrades);
    expect(trial).toMatchObject({ agent: "claude", verdict: "pass", usage: { requests: 4 } });
    expect(trial.score).toBeCloseTo((1 + 1 + 1 + 0.9) / 4, 10);
    expect(result.environment.agents).toEqual([
      { name: "claude", type: "model", model: "anthropic/claude-sonnet-4-5" },
    ]);

    const claude = provider.requests.filter((request) => request.wire === "anthropic");
    expect(claude.map(({ headers }) => headers["x-api-key"])).toEqual(Array(4).fill("the-key-for-claude"));
    // One conversation: the last request still has the first step's words, call and result.
    expect(claude.at(-1)).toMatchObject({
      users: ["Say hello through the echo tool.", "Now add 2 and 3."],
      assistants: ["It answered: Echo: hello"],
      toolResults: [
        { tool: "echo", text: "Echo: hello" },
        { tool: "get-sum", text: "The sum of 2 and 3 is 5." },
      ],
    });
    const [judge, ...others] = provider.requests.filter((request) => request.model === "gpt-4o");
    expect(others).toEqual([]);
    expect(judge?.headers.authorization).toBe("Bearer the-key-for-the-judge");
    expect(judge?.users.join()).toContain("The sum of 2 and 3 is 5.");

    const list = await runShell("npx mcpvals list", options);
    expect(list).toMatchObject({ code: 0, stderr: "" });
    expect(list.stdout).toContain("greet and add  (2 turns, expects echo, get-sum)");
    expect(provider.requests).toHaveLength(5);
  });

  it("its library call, on a TypeScript config, with a server over Streamable HTTP", async () => {
    await using provider = await startFakeProvider(playSpecification);
    await using server = await startEverythingOverHttp();
    const config = JSON.stringify(specificationConfig({ transport: "shttp", url: server.url }));
    using folder = folderOf({
      "package.json": { type: "module" },
      "mcp-eval.config.ts": `import { defineConfig, type Config } from "mcpvals";\nconst config: Config = ${config};\nexport default defineConfig(config);\n`,
      "snippet.ts": `import { evaluate } from "mcpvals";\n\nconst result = await evaluate("./mcp-eval.config.ts");\nconsole.log(JSON.stringify(result));\n`,
    });
    linkPackage(folder.path);
    const options = { cwd: folder.path, env: asClaudeAndJudge(provider) };
    const run = await runShell("node snippet.ts", options);
    expect(run).toMatchObject({ code: 0, stderr: "" });
    const result = JSON.parse(run.stdout) as RunResult;
    expect(result.verdict).toBe("pass");
    expect(gradesOf(trialOf(result, "greet and add"))).toEqual(specifiedGrades);
  });

  it("its scores: each from 0 to 1, partial credit, their average, and red when any one fails", async () => {
    /** What the model does in each workflow, one reply for each time that it is asked. */
    const replies: Readonly<Record<string, readonly FakeReply[]>> = {
      "all pass": [{ tool: "add", args: { a: 2, b: 3 } }, { text: "The SUM is there." }],
      "state in the last tool result": [{ tool: "echo", args: { message: "The Sum" } }, { text: "Done." }],
      "state not reached": [{ tool: "add", args: { a: 2, b: 3 } }, { text: "Done." }],
      "one tool of three": [{ tool: "add", args: { a: 2, b: 3 } }, { text: "The sum." }],
      "wrong order": [
        { tools: [{ tool: "echo", args: {} }] },
        { tool: "add", args: {} },
        { text: "The sum." },
      ],
      "one sick call of two": [{ tool: "add", args: {} }, { tool: "fail" }, { text: "The sum." }],
      "judged badly": [{ tool: "add", args: { a: 2, b: 3 } }, { text: "The sum." }],
    };
    const tools: Readonly<Record<string, readonly string[]>> = {
      "state in the last tool result": ["echo"],
      "one tool of three": ["add", "echo", "cwd"],
      "wrong order": ["add", "echo"],
    };
    await using provider = await startFakeProvider((request) => {
      if (request.model === "gpt-4o") {
        const bad = request.users.join().includes("Name: judged badly");
        return { text: JSON.stringify({ score: bad ? 0.5 : 1, reason: "Because." }) };
      }
      return replies[request.users[0] ?? ""]?.[request.toolResults.length] ?? { status: 400 };
    });
    const { code, result } = await runInline(
      {
        "mcp-eval.config.json": {
          server: fixtureServer(),
          workflows: Object.keys(replies).map((name) => ({
            name,
            steps: [{ user: name, expectedState: "the sum" }],
            expectTools: tools[name] ?? ["add"],
          })),
          llmJudge: true,
          openaiKey: "key",
        },
      },
      ["--concurrency", "4"],
      asClaudeAndJudge(provider),
    );
    const found = result.trials.map((trial) => [
      trial.task,
      trial.verdict,
      ...Object.values(gradesOf(trial)),
      `average ${trial.score?.toFixed(4)}`,
    ]);
    expect(found).toEqual([
      ["all pass", "pass", "pass 1", "pass 1", "pass 1", "pass 1", "average 1.0000"],
      ["state in the last tool result", "pass", "pass 1", "pass 1", "pass 1", "pass 1", "average 1.0000"],
      ["state not reached", "fail", "fail 0", "pass 1", "pass 1", "pass 1", "average 0.7500"],
      ["one tool of three", "fail", "pass 1", `fail ${1 / 3}`, "pass 1", "pass 1", "average 0.8333"],
      ["wrong order", "fail", "pass 1", "fail 0.5", "pass 1", "pass 1", "average 0.8750"],
      ["one sick call of two", "fail", "pass 1", "pass 1", "fail 0.5", "pass 1", "average 0.8750"],
      ["judged badly", "fail", "pass 1", "pass 1", "pass 1", "fail 0.5", "average 0.8750"],
    ]);
    expect(Object.keys(gradesOf(trialOf(result, "all pass")))).toEqual(Object.keys(specifiedGrades));
    expect([code, result.verdict]).toEqual([1, "fail"]);
  });
});

/** The official `everything` server over Streamable HTTP, on a port of its own. */
async function startEverythingOverHttp(): Promise<AsyncDisposable & { readonly url: string }> {
  const { origin, port } = new URL(await closedAddress());
  const child = spawn(process.execPath, [everything, "streamableHttp"], {
    env: { PORT: port },
    stdio: "ignore",
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  await vi.waitFor(async () => fetch(`${origin}/mcp`), { timeout: 100_000, interval: 50 });
  return {
    url: `${origin}/mcp`,
    async [Symbol.asyncDispose]() {
      child.kill();
      await ended;
    },
  };
}
