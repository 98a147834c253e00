import { gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished } from "vitest";
import { startModelProxy } from "../../src/agents/model-proxy.ts";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { OAuthSpec } from "../../src/model/server.ts";
import { locateModel, resolveModel } from "../../src/agents/models/resolve-model.ts";
import { createRetryingModel } from "../../src/agents/models/retrying-model.ts";
import { TokenSource } from "../../src/servers/http/oauth-tokens.ts";
import { refusalText } from "../../src/servers/http/event-stream.ts";
import { createServerRequests } from "../../src/servers/http/server-requests.ts";
import { fixtureServer } from "../e2e/support.ts";
import { type Endless, type EndlessServer, issuerMetadata, startEndless } from "../support/hostile.ts";
import { startRun } from "../support/faults.ts";
import { startHttp } from "../support/http.ts";
import type { Usage } from "../../src/model/grade.ts";

const chat = '{"id":"r","created":1,"model":"x","choices":[';
const spoken = `${chat}{"message":{"role":"assistant","content":"`;
const spokenEnd = '"},"finish_reason":"stop"}]}';
const wires = {
  "anthropic/x": ['{"type":"message","id":"m","model":"x","role":"assistant","content":[', "/v1"],
  "openai/x": ['{"id":"r","created_at":1,"model":"x","output":[', "/v1"],
  "google/x": ['{"candidates":[{"content":{"parts":[', "/v1beta"],
  "ollama/x": [chat, "/v1"],
} as const;
const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "hi" }] }];

async function ask(model: keyof typeof wires, answer: Endless): Promise<{ code: string; message: string }> {
  const [begin, path] = wires[model];
  const { url } = await startEndless(() => ({ begin, ...answer }));
  const access = locateModel({ model, baseURL: `${url}${path}`, apiKey: "canary-key" }, {});
  const asked = await createRetryingModel(await resolveModel(access), {
    access,
    purpose: "agent",
    emit: () => 0,
    requestTimeoutMs: 20_000,
    retry: { maxRetries: 0 },
  });
  return asked.doGenerate({ prompt }).then(
    () => ({ code: "answered", message: "" }),
    (error: unknown) => error as { code: string; message: string },
  );
}

const invalid = (why: string): object => ({
  code: "model/invalid-response",
  message: expect.stringContaining(why) as string,
});

it.each<[string, Endless, string]>([
  ["without an end", { again: '{"text":"x"},' + "x".repeat(60_000) }, "more than 32 MiB"],
  ["that is nested", { again: "[" }, "more than 500 levels"],
  ["that is an error without an end", { status: 500, begin: '{"error":"', again: "x" }, "more than 32 MiB"],
])("an answer %s is refused", async (_, answer, why) => {
  expect(await ask("ollama/x", answer)).toMatchObject(invalid(why));
});

describe.each(Object.keys(wires) as (keyof typeof wires)[])("an answer of %s", (model) => {
  it("of tiny values is refused", async () => {
    expect(await ask(model, { again: "{}," })).toMatchObject(invalid("more than 100000 values"));
  });

  it("that is a redirect is not followed: the key goes to no other address", async () => {
    const other = await startEndless(() => ({ begin: "{}", end: "" }));
    const refused = { code: "model/rejected", message: expect.stringContaining("307") as string };
    const redirect = { status: 307, headers: { location: other.url }, end: "" };
    expect(await ask(model, redirect)).toMatchObject(refused);
    expect(other.requests).toEqual([]);
  });
});

const calling = '"function":{"name":"t","arguments":"';
const begin = `${chat}{"message":{"role":"assistant","tool_calls":[{"id":"c","type":"function",${calling}`;
const many = `[${"0,".repeat(60_000)}0]`;
it.each([
  ["of tiny values", `{\\"a\\":[${"0,".repeat(100_000)}0]}`, "more than 100000 values"],
  [
    "of tiny values in two calls",
    `${many}"}},{"id":"d","type":"function",${calling}${many}`,
    "more than 100000 values",
  ],
  ["that are nested", `${"[".repeat(501)}${"]".repeat(501)}`, "more than 500 levels"],
  ["that are nested, and have no end", "[".repeat(1_000_000), "more than 500 levels"],
])("arguments of a model's call %s are refused", async (_, args, why) => {
  const end = `${args}"}}]},"finish_reason":"tool_calls"}]}`;
  expect(await ask("ollama/x", { begin, end })).toMatchObject(invalid(why));
});

it("the answers of one trial together are bounded, too", async () => {
  const { url } = await startEndless(() => ({ begin: spoken, end: "x".repeat(9_000_000) + spokenEnd }));
  const access = locateModel({ model: "ollama/x", baseURL: `${url}/v1` }, {});
  const [model, ofAnotherTrial] = await Promise.all([resolveModel(access), resolveModel(access)]);
  for (let answer = 0; answer < 3; answer += 1) await model.doGenerate({ prompt });
  await expect(model.doGenerate({ prompt })).rejects.toThrow();
  await expect(ofAnotherTrial.doGenerate({ prompt })).resolves.toBeDefined();
});

it("the whole program takes less than a gigabyte, whatever models send", async () => {
  const answers: Readonly<Record<string, Endless>> = {
    endless: { begin: '{"choices":[{"message":{"content":"', again: "x" },
    tiny: { begin: '{"choices":[', again: "{}," },
    large: { begin: spoken, again: "é", bytes: 15_000_000, end: spokenEnd },
  };
  const { url } = await startEndless(
    ({ url: path = "" }) => answers[path.split("/")[1] ?? ""] ?? { status: 404, end: "" },
  );
  const modelAt = (name: string) => ({ model: "ollama/x", baseURL: `${url}/${name}/v1` });
  const agents = Object.keys(answers).map((name) => [name, { type: "model", ...modelAt(name) }] as const);
  const config: Config = {
    server: fixtureServer(),
    agents: Object.fromEntries(agents),
    judge: modelAt("large"),
    llmJudge: true,
    workflows: [{ name: "w", steps: [{ user: "hi", expectedState: "hello" }] }],
  };
  const flags = Object.keys(answers).flatMap((name) => ["--agent", name]);
  using run = startRun(config, { args: ["-j", "3", ...flags] });
  const { result, code, peak } = await run.ended();
  const verdicts = result.trials.map(({ verdict }) => verdict);
  expect([verdicts.length, verdicts.includes("pass"), code === 0]).toEqual([3, false, false]);
  expect(peak).toBeGreaterThan(50);
  expect(peak).toBeLessThan(1000);
});

describe("the proxy that counts the tokens of an agent program", () => {
  async function count(parts: readonly Buffer[], headers: Record<string, string> = {}): Promise<Usage[]> {
    const target = await startHttp((_, response) => {
      response.writeHead(200, { "content-type": "application/json", ...headers });
      for (const part of parts) response.write(part);
      response.end();
    });
    const usages: Usage[] = [];
    const proxy = await startModelProxy({ target, onUsage: (usage) => usages.push(usage) });
    onTestFinished(() => proxy.close());
    const response = await fetch(`${proxy.url}/v1/messages`, { method: "POST", body: "{}" });
    for await (const _ of response.body ?? []);
    return usages;
  }

  const uncounted = [{ inputTokens: 0, outputTokens: 0, requests: 1 }];

  it("gives up on an answer that unpacks to gigabytes, and still counts the request", async () => {
    const bomb = gzipSync(Buffer.alloc(80_000_000, " "), { level: 1 });
    const before = process.memoryUsage().rss;
    expect(await count([bomb], { "content-encoding": "gzip" })).toEqual(uncounted);
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 ** 2);
  });

  it("keeps nothing of an answer that is too long to report tokens", async () => {
    const blanks = Array.from({ length: 20 }, () => Buffer.alloc(1024 * 1024, " "));
    const usage = Buffer.from('{"usage":{"prompt_tokens":3,"completion_tokens":2}}');
    expect(await count([...blanks, usage])).toEqual(uncounted);
  });
});

const json = (body: object): Endless => ({ begin: JSON.stringify(body), end: "" });
const unauthorized = (why: unknown): object => ({ code: "server/unauthorized", message: why });

/** A server that wants tokens, and its own authorization server. */
function startIssuer(answerAt: (path: string) => Endless | undefined): Promise<EndlessServer> {
  return startEndless(({ url: path = "" }, url) => {
    const known: Readonly<Record<string, object>> = {
      "/.well-known/oauth-protected-resource/mcp": { resource: `${url}/mcp`, authorization_servers: [url] },
      "/.well-known/oauth-authorization-server": issuerMetadata(url),
      "/token": { access_token: "canary-token", token_type: "Bearer" },
    };
    const body = known[path];
    return answerAt(path) ?? (body === undefined ? { status: 404, end: "" } : json(body));
  });
}

function tokensOf({ url: issuer }: EndlessServer, mostMs = 20_000): TokenSource {
  const auth: OAuthSpec = {
    kind: "client-credentials",
    clientId: "me",
    clientSecret: "canary-secret",
    issuer,
  };
  return new TokenSource({ url: `${issuer}/mcp`, auth }, () => undefined, mostMs);
}

describe("getting a token ends", () => {
  /** The token, or the error, where the answer at one path is another one. */
  async function tokenFrom(path: string, answer: Endless, mostMs?: number): Promise<unknown> {
    const server = await startIssuer((asked) => (asked === path ? answer : undefined));
    return tokensOf(server, mostMs)
      .renew(undefined, {})
      .catch((error: unknown) => error);
  }

  const paths = [
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "/token",
  ];

  it.each(paths)("%s without an end is not read on", async (path) => {
    const tooMuch = expect.stringMatching(/more than (?:1 MiB|10000 values|500 levels)/);
    for (const [start, again] of [
      ['{"x":"', "x"],
      ['{"x":[', "{},"],
      ["[", "["],
    ] as const) {
      const given = await tokenFrom(path, { begin: start, again });
      // What the server under test says of itself is only a hint.
      if (path === paths[0] && given === "canary-token") continue;
      expect(given).toMatchObject(unauthorized(tooMuch));
    }
  });

  it.each(paths)("%s that never ends takes no longer than it may", async (path) => {
    const late = expect.stringContaining("it took more than 0.3 seconds");
    expect(await tokenFrom(path, { begin: "{" }, 300)).toMatchObject(unauthorized(late));
  });

  it.each([
    ["x".repeat(9000), "longer than 8192 characters"],
    ["canary token\n", "characters that are not allowed in a header"],
  ])("a token that is not a header is refused: %j", async (token, why) => {
    const error = await tokenFrom("/token", json({ access_token: token, token_type: "Bearer" }));
    expect(error).toMatchObject(unauthorized(expect.stringContaining(why)));
    expect(String(error)).not.toContain("canary");
  });
});

describe("a redirect of a server", () => {
  it("to another address takes neither its headers nor its messages there", async () => {
    const other = await startEndless(() => ({ begin: "{}", end: "" }));
    const headers = { location: `${other.url}/mcp` };
    const server = await startEndless(() => ({ status: 307, headers, end: "" }));
    const own = createServerRequests({ url: server.url, headers: { "X-Api-Key": "canary" } });
    const response = await own(new URL(server.url), {
      method: "POST",
      headers: {},
      body: "canary",
    });
    expect([response.status, other.requests]).toEqual([307, []]);
  });

  it("within its own address is followed", async () => {
    const server = await startEndless(({ url, headers }) =>
      url === "/mcp"
        ? { status: 307, headers: { location: "/mcp/" }, end: "" }
        : { begin: String(headers["x-api-key"]), end: "" },
    );
    const own = createServerRequests({ url: server.url, headers: { "X-Api-Key": "mine" } });
    const response = await own(new URL("/mcp", server.url), {
      method: "POST",
      headers: {},
      body: "hello",
    });
    expect([response.status, await refusalText(response)]).toEqual([200, "mine"]);
    expect(server.requests.at(-1)).toBe("POST /mcp/ hello");
  });
});
