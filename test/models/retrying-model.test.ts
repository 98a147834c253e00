import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { ModelSpec } from "../../src/model/agent.ts";
import type { EventBody } from "../../src/model/event.ts";
import { locateModel, type ModelAnswer, resolveModel } from "../../src/agents/models/resolve-model.ts";
import { createRetryingModel, type RetrySettings } from "../../src/agents/models/retrying-model.ts";
import type { Hold } from "../../src/process/deadline.ts";
import type { SharedLimits } from "../../src/process/adaptive-limit.ts";
import { eventsOf } from "../support/agent-context.ts";
import { type FakeReply, startFakeProvider } from "../support/fake-provider.ts";
import type { RunResult } from "../../src/model/result.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { keepIn } from "../support/records.ts";

const apiKey = "sk-ant-very-secret-key";
const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "hi" }] }];

interface Asked {
  readonly events: EventBody[];
  readonly waits: number[];
  readonly answer: Promise<ModelAnswer>;
}

interface AskOptions {
  readonly spec?: Partial<ModelSpec>;
  /** Beside noting and skipping the waits. */
  readonly retry?: RetrySettings;
  /** Instead of that. */
  readonly retryForReal?: RetrySettings;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  readonly accounts?: SharedLimits;
  readonly hold?: Hold;
  readonly onEvent?: (event: EventBody) => unknown;
}

/** Asks a model once; waits between attempts are noted and skipped. */
function ask(url: string, options: AskOptions = {}): Asked {
  const events: EventBody[] = [];
  const waits: number[] = [];
  const keep = keepIn(events);
  const { accounts, hold } = options;
  const spec: ModelSpec = { model: "anthropic/claude-sonnet-4-5", baseURL: url, apiKey, ...options.spec };
  const run = async (): Promise<ModelAnswer> => {
    const access = locateModel(spec, {});
    const model = await createRetryingModel(await resolveModel(access), {
      access,
      purpose: "agent",
      emit: (event) => {
        const seq = keep(event);
        options.onEvent?.(event);
        return seq;
      },
      requestTimeoutMs: options.timeoutMs ?? 10_000,
      ...(accounts && { accounts }),
      ...(hold && { hold }),
      retry: options.retryForReal ?? {
        random: () => 1,
        sleep: async (ms) => {
          waits.push(ms);
        },
        ...options.retry,
      },
    });
    return model.doGenerate({
      prompt,
      ...(options.signal === undefined ? {} : { abortSignal: options.signal }),
    });
  };
  return { events, waits, answer: run() };
}

async function failure(asked: Asked): Promise<Record<string, unknown>> {
  return asked.answer.then(
    () => {
      throw new Error("expected a failure");
    },
    (error: unknown) => error as Record<string, unknown>,
  );
}

const throttled = (headers: Record<string, string>): FakeReply => ({
  status: 429,
  headers,
  message: "slow down",
});

describe("retries", () => {
  test("follow Retry-After and are recorded", async () => {
    await using provider = await startFakeProvider([
      throttled({ "retry-after": "2" }),
      throttled({ "retry-after-ms": "30" }),
      throttled({}),
      { status: 529, message: "overloaded" },
      { text: "finally", usage: { input: 11, output: 3 } },
    ]);
    const asked = ask(provider.url);
    expect((await asked.answer).content).toMatchObject([{ type: "text", text: "finally" }]);
    expect(asked.waits).toEqual([2000, 30, 2000, 4000]);
    const model = "anthropic/claude-sonnet-4-5";
    const retried = { type: "model.retried", purpose: "agent", model };
    // The waits of this test take no time, but rounded it may be a millisecond.
    expect(asked.events.map((event) => ({ ...event, throttledMs: 0 }))).toEqual([
      { ...retried, attempt: 1, reason: "HTTP 429: slow down", status: 429, delayMs: 2000, throttledMs: 0 },
      { ...retried, attempt: 2, reason: "HTTP 429: slow down", status: 429, delayMs: 30, throttledMs: 0 },
      { ...retried, attempt: 3, reason: "HTTP 429: slow down", status: 429, delayMs: 2000, throttledMs: 0 },
      { ...retried, attempt: 4, reason: "HTTP 529: overloaded", status: 529, delayMs: 4000, throttledMs: 0 },
      {
        type: "model.called",
        purpose: "agent",
        model,
        durationMs: expect.any(Number) as number,
        throttledMs: 0,
        finishReason: "stop",
        usage: { inputTokens: 11, outputTokens: 3, cacheReadTokens: 0, cacheWriteTokens: 0, requests: 1 },
      },
    ]);
  });

  test("are bounded: a provider that always fails is an error that says how often it was asked", async () => {
    await using provider = await startFakeProvider(() => ({ status: 500, message: "boom" }));
    const asked = ask(provider.url);
    expect(await failure(asked)).toMatchObject({
      code: "model/unreachable",
      message: `anthropic/claude-sonnet-4-5 at ${provider.url} did not answer after 5 attempts: HTTP 500: boom`,
      cause: { statusCode: 500 },
    });
    expect(provider.requests).toHaveLength(5);
    expect(eventsOf(asked.events, "model.retried")).toHaveLength(4);
    expect(eventsOf(asked.events, "model.called")).toEqual([]);
  });

  test("give up at once when the wait asked for is over the budget", async () => {
    await using provider = await startFakeProvider([
      throttled({ "retry-after": "50" }),
      throttled({ "retry-after": "20" }),
    ]);
    const asked = ask(provider.url);
    expect(await failure(asked)).toMatchObject({
      code: "model/unreachable",
      message:
        `anthropic/claude-sonnet-4-5 at ${provider.url} did not answer after 2 attempts: HTTP 429: slow down; ` +
        "the next attempt would have to wait 20 s, and only 10 s are left for waiting",
    });
    expect(asked.waits).toEqual([50_000]);
  });

  test.each<[FakeReply, RegExp]>([
    [{ drop: true }, /^connection closed before the answer was complete \(UND_ERR_SOCKET\)$/],
    [{ drop: "body" }, /^connection closed before the answer was complete \(UND_ERR_SOCKET\)$/],
    [{ status: 408 }, /^HTTP 408/],
    [{ status: 409 }, /^HTTP 409/],
  ])("mend %j", async (reply, reason) => {
    await using provider = await startFakeProvider([reply, { text: "ok" }]);
    const asked = ask(provider.url);
    await asked.answer;
    expect(eventsOf(asked.events, "model.retried").map((event) => event.reason)).toEqual([
      expect.stringMatching(reason),
    ]);
  });

  test("mend a request that takes too long", async () => {
    await using provider = await startFakeProvider([{ hang: true }, { text: "ok" }]);
    const asked = ask(provider.url, { timeoutMs: 300 });
    await asked.answer;
    expect(eventsOf(asked.events, "model.retried")).toMatchObject([
      { reason: "no answer within 0.3 s", attempt: 1 },
    ]);
  });
});

describe("requests with one key to one address", () => {
  const share = (): SharedLimits => ({ most: 4, limits: new Map() });
  const retryForReal: RetrySettings = { baseDelayMs: 1 };

  test("wait together for what the provider asks of one of them, and their time limits with them", async () => {
    const refused = Promise.withResolvers<void>();
    const times: number[] = [];
    await using provider = await startFakeProvider((_, index) => {
      times.push(performance.now());
      return index === 0 ? throttled({ "retry-after-ms": "1000" }) : { text: "ok" };
    });
    const accounts = share();
    const held: Promise<unknown>[] = [];
    const hold: Hold = (waiting) => {
      held.push(waiting);
      return waiting;
    };
    const first = ask(provider.url, {
      retryForReal,
      accounts,
      hold,
      onEvent: ({ type }) => type === "model.retried" && refused.resolve(),
    });
    await refused.promise;
    const second = ask(provider.url, { retryForReal, accounts, hold });
    const other = ask(provider.url, { retryForReal, accounts, hold, spec: { apiKey: "sk-another-key" } });
    await other.answer;
    expect(eventsOf(other.events, "model.waiting")).toEqual([]);
    await Promise.all([first.answer, second.answer]);

    const about = { purpose: "agent", model: "anthropic/claude-sonnet-4-5" };
    const changed = { type: "model.limit_changed", ...about, from: 4, to: 3, reason: "HTTP 429: slow down" };
    expect(first.events).toContainEqual(changed);
    expect(second.events).toMatchObject([
      { type: "model.waiting", ...about, delayMs: expect.any(Number) as number },
      { type: "model.called", throttledMs: expect.any(Number) as number },
    ]);
    // The first may come back a moment too early, and wait once more.
    expect(held.length).toBeGreaterThanOrEqual(2);
    const [began = 0, , third = 0, fourth = 0] = times;
    expect(Math.min(third, fourth) - began).toBeGreaterThan(998);
  });

  test("wait for their turn when fewer may be sent at once", async () => {
    const gate = Promise.withResolvers<void>();
    await using provider = await startFakeProvider(async (_, index) => {
      if (index === 0) return throttled({});
      if (index === 1) await gate.promise;
      return { text: "ok" };
    });
    const accounts: SharedLimits = { most: 2, limits: new Map() };
    const first = ask(provider.url, { retryForReal, accounts });
    await provider.received(2);
    const waits = Promise.withResolvers<void>();
    const second = ask(provider.url, { retryForReal, accounts, onEvent: () => waits.resolve() });
    await waits.promise;
    expect(second.events).toMatchObject([{ type: "model.waiting", limit: 1 }]);
    expect(provider.requests).toHaveLength(2);
    gate.resolve();
    await Promise.all([first.answer, second.answer]);
  });

  test("are not held up by one that gave up", async () => {
    await using provider = await startFakeProvider((_, index) =>
      index === 0 ? throttled({ "retry-after": "3600" }) : { text: "ok" },
    );
    const accounts = share();
    await failure(ask(provider.url, { accounts }));
    const { events, answer } = ask(provider.url, { accounts });
    await answer;
    expect(eventsOf(events, "model.waiting")).toEqual([]);
  });

  test("end at once when what asks for them is interrupted", async () => {
    await using provider = await startFakeProvider([throttled({ "retry-after": "50" })]);
    const accounts = share();
    const [abort, abortFirst] = [new AbortController(), new AbortController()];
    const refused = Promise.withResolvers<void>();
    const first = ask(provider.url, {
      retryForReal,
      accounts,
      signal: abortFirst.signal,
      onEvent: ({ type }) => type === "model.retried" && refused.resolve(),
    });
    await refused.promise;
    const second = ask(provider.url, { retryForReal, accounts, signal: abort.signal });
    abort.abort(new Error("stop"));
    abortFirst.abort(new Error("stop too"));
    expect(await failure(second)).toMatchObject({ message: "stop" });
    expect(await failure(first)).toMatchObject({ message: "stop too" });
    expect(provider.requests).toHaveLength(1);
  });
});

describe("final errors", () => {
  test.each([400, 404])("HTTP %i is final, with the provider's words", async (status) => {
    await using provider = await startFakeProvider([{ status, message: "the provider says why" }]);
    const asked = ask(provider.url);
    expect(await failure(asked)).toMatchObject({
      code: "model/rejected",
      message: `anthropic/claude-sonnet-4-5 at ${provider.url} refused the request: HTTP ${status}: the provider says why`,
      cause: { statusCode: status },
    });
    expect(asked.events).toEqual([]);
  });

  test.each<readonly [number, string]>([
    ...[301, 302, 307, 308].map((status) => [status, "Give the base URL that it redirects to."] as const),
    [401, "Check the API key and that it may use this model."],
    [403, "Check the API key and that it may use this model."],
    [404, "Check the model's name and the base URL."],
  ])("HTTP %i has a hint: %s", async (status, hint) => {
    await using provider = await startFakeProvider([{ status, message: "no" }]);
    expect(await failure(ask(provider.url))).toMatchObject({ details: { hint } });
  });

  test.each<[string, FakeReply, RegExp]>([
    ["HTML", { raw: "<html>\n<body>proxy" }, /it is not JSON: <html> <body>proxy/],
    ["nothing", { raw: "" }, /it is empty/],
    ["another shape", { raw: '{"ok":true}' }, /a body that is not the expected JSON: \{"ok":true\}/],
  ])("a body with %s is model/invalid-response", async (_what, reply, message) => {
    await using provider = await startFakeProvider([reply]);
    expect(await failure(ask(provider.url))).toMatchObject({
      code: "model/invalid-response",
      message: expect.stringMatching(message) as string,
    });
    expect(provider.requests).toHaveLength(1);
  });

  test("a request that is too long for the model has a code of its own", async () => {
    await using provider = await startFakeProvider([
      { status: 400, message: "prompt is too long: 9 tokens" },
    ]);
    expect(await failure(ask(provider.url))).toMatchObject({ code: "model/context-overflow" });
  });

  test("JSON without an answer, from a server that speaks another API, is model/invalid-response", async () => {
    await using provider = await startFakeProvider([{ raw: '{"choices":[]}' }]);
    expect(await failure(ask(provider.url, { spec: { model: "openai/gpt-5" } }))).toMatchObject({
      code: "model/invalid-response",
      message: expect.stringContaining('an answer of another form: {"choices":[]}') as string,
    });
    expect(provider.requests).toHaveLength(1);
  });

  test.each<[string, string, FakeReply]>([
    [
      "model/rejected",
      "You exceeded your current quota",
      {
        status: 429,
        body: { error: { message: "You exceeded your current quota", code: "insufficient_quota" } },
      },
    ],
    ["model/unreachable", "HTTP 500", { status: 500, headers: { "x-should-retry": "false" } }],
  ])("are %s without a retry: %s", async (code, message, reply) => {
    await using provider = await startFakeProvider([reply]);
    const error = await failure(ask(provider.url, { spec: { model: "openai/gpt-5" } }));
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) as string });
    expect(provider.requests).toHaveLength(1);
  });

  test("an answer that is not an error of the provider's own is shown in part", async () => {
    await using provider = await startFakeProvider([{ raw: `gateway\n${"x".repeat(1000)}`, status: 418 }]);
    const { message } = await failure(ask(provider.url));
    expect(message).toMatch(/HTTP 418: I'm a teapot: gateway x{292}…$/i);
  });

  test("keys and headers that a provider repeats have the mark of a secret in everything that is recorded", async () => {
    const token = "team-token-1234";
    const message = `bad key ${apiKey} and token ${token}`;
    const page = { raw: `no JSON with ${apiKey}`, headers: { "content-type": "application/json" } };
    const refused = { status: 401, message };
    for (const [replies, said] of [
      [
        [{ status: 500, message, headers: { "retry-after-ms": "1" } }, refused],
        /bad key \[secret:apiKey\] and token \[secret:x-token\]$/,
      ],
      [[page], /no JSON with \[secret:apiKey\]$/],
    ] as const) {
      await using provider = await startFakeProvider([...replies]);
      using folder = folderOf({
        "mcp-eval.config.json": {
          server: fixtureServer(),
          agent: { model: "anthropic/m", baseURL: provider.url, apiKey, headers: { "x-token": token } },
          workflows: [{ name: "w", steps: [{ user: "hi", expectedState: "x" }] }],
        },
      });
      const { stdout } = await runHere(["run", "--reporter", "json"], { cwd: folder.path });
      const [trial] = (JSON.parse(stdout) as RunResult).trials;
      expect(trial?.error?.message).toMatch(said);
      const [run = ""] = readdirSync(join(folder.path, ".mcpvals/runs"));
      const journal = readFileSync(join(folder.path, ".mcpvals/runs", run, "journal.jsonl"), "utf8");
      expect(journal).toContain("[secret:apiKey]");
      for (const text of [stdout, journal]) {
        expect(text).not.toContain(apiKey);
        expect(text).not.toContain(token);
        expect(text).not.toContain("(secret:");
      }
    }
  });
});

describe("aborting", () => {
  test("during a request throws the reason as it is", async () => {
    await using provider = await startFakeProvider([{ hang: true }]);
    const controller = new AbortController();
    const asked = ask(provider.url, { signal: controller.signal });
    await provider.received(1);
    const reason = Object.assign(new Error("over"), { code: "ECONNRESET" });
    controller.abort(reason);
    expect(await failure(asked)).toBe(reason);
    expect(asked.events).toEqual([]);
  });

  test("during a wait throws the reason as it is", async () => {
    await using provider = await startFakeProvider([throttled({})]);
    const controller = new AbortController();
    const reason = new Error("over");
    const asked = ask(provider.url, {
      signal: controller.signal,
      retryForReal: {
        // Asked right before the wait begins.
        random: () => {
          setImmediate(() => controller.abort(reason));
          return 1;
        },
        baseDelayMs: 30_000,
      },
    });
    expect(await failure(asked)).toBe(reason);
  });
});

describe("the process's own environment", () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  const models = ["anthropic/claude-sonnet-4-5", "openai/gpt-5", "google/gemini-2.5-flash"];
  const clouds = ["azure/gpt-5", "bedrock/amazon.nova-lite-v1"];
  test.each([...models, ...clouds])("is never read for %s", async (model) => {
    for (const name of ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"])
      vi.stubEnv(name, "http://127.0.0.1:9/");
    for (const name of ["ANTHROPIC", "OPENAI", "GOOGLE_GENERATIVE_AI", "AZURE", "AZURE_OPENAI"])
      vi.stubEnv(`${name}_API_KEY`, "wrong");
    vi.stubEnv("AWS_BEARER_TOKEN_BEDROCK", "wrong");
    await using provider = await startFakeProvider([{ text: "ok" }], { key: apiKey });
    await ask(provider.url, { spec: { model } }).answer;
    expect(provider.requests).toHaveLength(1);
  });

  test("sends no key to a local server that was given none", async () => {
    vi.stubEnv("OPENAI_API_KEY", "wrong");
    await using provider = await startFakeProvider([{ text: "ok" }]);
    await ask(provider.url, { spec: { model: "qwen", baseURL: `${provider.url}/v1`, apiKey: "" } }).answer;
    expect(provider.requests[0]?.headers.authorization).toBeUndefined();
  });
});
