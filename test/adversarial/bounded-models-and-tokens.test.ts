import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { startModelProxy } from "../../src/agents/model-proxy.ts";
import { createRetryingModel } from "../../src/models/retrying-model.ts";
import { locateModel } from "../../src/models/locate-model.ts";
import { resolveModel } from "../../src/models/resolve-model.ts";
import { createServerFetch } from "../../src/servers/http/server-fetch.ts";
import { TokenSource } from "../../src/servers/http/oauth-tokens.ts";
import type { OAuthSpec } from "../../src/core/formats/model.ts";
import type { Usage } from "../../src/core/trace/events.ts";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import { type Endless, startEndless } from "../support/endless.ts";
import { startRun } from "../support/faults.ts";
import { fixtureServer } from "../e2e/support.ts";

const wires = {
  "anthropic/x": ['{"type":"message","id":"m","model":"x","role":"assistant","content":[', "/v1"],
  "openai/x": ['{"id":"r","created_at":1,"model":"x","output":[', "/v1"],
  "google/x": ['{"candidates":[{"content":{"parts":[', "/v1beta"],
  "ollama/x": ['{"id":"r","created":1,"model":"x","choices":[', "/v1"],
} as const;

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
  const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "hi" }] }];
  return asked.doGenerate({ prompt }).then(
    () => ({ code: "answered", message: "" }),
    (error: unknown) => error as { code: string; message: string },
  );
}

// Claim: whatever a model sends, a trial's memory is bounded. docs/security.md.
describe.each(Object.keys(wires) as (keyof typeof wires)[])("an answer of %s", (model) => {
  it.each<[string, Endless, string]>([
    ["without an end", { again: '{"text":"x"},' + "x".repeat(60_000) }, "more than 32 MiB"],
    ["of tiny values", { again: "{}," }, "more than 100000 values"],
    ["that is nested", { again: "[" }, "more than 500 levels"],
    ["that is an error without an end", { status: 500, begin: '{"error":"', again: "x" }, "more than 32 MiB"],
  ])("%s is refused", async (_, answer, why) => {
    const { code, message } = await ask(model, answer);
    expect([code, message]).toEqual(["model/invalid-response", expect.stringContaining(why)]);
  });

  it("is not looked for elsewhere: the key goes to no other address", async () => {
    const other = await startEndless(() => ({ begin: "{}", end: "" }));
    const { code, message } = await ask(model, { status: 307, headers: { location: other.url }, end: "" });
    expect([code, message, other.requests]).toEqual(["model/rejected", expect.stringContaining("307"), []]);
  });
});

describe("the arguments of a call, which are JSON in a text", () => {
  const begin =
    '{"id":"r","created":1,"model":"x","choices":[{"message":{"role":"assistant","tool_calls":' +
    '[{"id":"c","type":"function","function":{"name":"t","arguments":"';
  const end = '"}}]},"finish_reason":"tool_calls"}]}';

  it.each([
    ["of tiny values", `{\\"a\\":[${"0,".repeat(100_000)}0]}`, "more than 100000 values"],
    ["that are nested", `${"[".repeat(501)}${"]".repeat(501)}`, "more than 500 levels"],
    ["that are nested, and have no end", "[".repeat(1_000_000), "more than 500 levels"],
  ])("%s are refused", async (_, args, why) => {
    const { code, message } = await ask("ollama/x", { begin, end: `${args}${end}` });
    expect([code, message]).toEqual(["model/invalid-response", expect.stringContaining(why)]);
  });

  it("are counted over all calls of an answer", async () => {
    const args = `[${"0,".repeat(60_000)}0]`;
    const call = `{"id":"d","type":"function","function":{"name":"t","arguments":"${args}`;
    const { message } = await ask("ollama/x", { begin, end: `${args}"}},${call}${end}` });
    expect(message).toContain("more than 100000 values");
  });
});

describe("the answers of one trial together", () => {
  it("are bounded, too", async () => {
    const text = "x".repeat(9_000_000);
    const { url } = await startEndless(() => ({
      begin: '{"id":"r","created":1,"model":"x","choices":[{"message":{"role":"assistant","content":"',
      end: `${text}"},"finish_reason":"stop"}]}`,
    }));
    const access = locateModel({ model: "ollama/x", baseURL: `${url}/v1` }, {});
    const model = await resolveModel(access);
    const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "hi" }] }];
    for (let answer = 0; answer < 3; answer += 1) await model.doGenerate({ prompt });
    await expect(model.doGenerate({ prompt })).rejects.toThrow();
  });
});

function configFor(baseURL: string): Config {
  return {
    server: fixtureServer(),
    agent: { model: "ollama/x", baseURL },
    judge: { model: "ollama/x", baseURL },
    llmJudge: true,
    workflows: [1, 2, 3].map((number) => ({
      name: `w${number}`,
      steps: [{ user: "hi", expectedState: "hello" }],
    })),
  };
}

describe("the whole program, with a model that sends", () => {
  it.each<[string, Endless]>([
    ["without an end", { begin: '{"choices":[{"message":{"content":"', again: "x" }],
    ["tiny values without an end", { begin: '{"choices":[', again: "{}," }],
    [
      "as much as it may",
      {
        begin: '{"id":"r","created":1,"model":"x","choices":[{"message":{"role":"assistant","content":"',
        again: "é",
        bytes: 15_000_000,
        end: '"},"finish_reason":"stop"}]}',
      },
    ],
  ])("%s, takes less than a gigabyte", async (_, answer) => {
    const { url } = await startEndless(() => answer);
    using run = startRun(configFor(`${url}/v1`), { args: ["-j", "3"] });
    const { result, code, peak } = await run.ended();
    expect(code).not.toBe(0);
    expect(result.trials.map(({ verdict }) => verdict)).not.toContain("pass");
    expect(peak).toBeGreaterThan(50);
    expect(peak).toBeLessThan(1000);
  });
});

describe("the proxy that counts the tokens of an agent program", () => {
  async function count(
    answer: (write: (body: Buffer) => void, end: () => void) => void,
    headers = {},
  ): Promise<Usage[]> {
    const server = createServer((_, response) => {
      response.writeHead(200, { "content-type": "application/json", ...headers });
      answer(
        (body) => response.write(body),
        () => response.end(),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const usages: Usage[] = [];
    const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const proxy = await startModelProxy({ target, onUsage: (usage) => usages.push(usage) });
    onTestFinished(async () => {
      await proxy.close();
      server.closeAllConnections();
      server.close();
    });
    const response = await fetch(`${proxy.url}/v1/messages`, { method: "POST", body: "{}" });
    for await (const _ of response.body ?? []);
    return usages;
  }

  it("gives up on an answer that unpacks to gigabytes, and still counts the request", async () => {
    const bomb = gzipSync(Buffer.alloc(100_000_000, " "));
    const before = process.memoryUsage().rss;
    const usages = await count(
      (write, end) => {
        write(bomb);
        end();
      },
      { "content-encoding": "gzip" },
    );
    expect(usages).toEqual([{ inputTokens: 0, outputTokens: 0, requests: 1 }]);
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 ** 2);
  });

  it("keeps nothing of an answer that is too long to tell tokens", async () => {
    const usages = await count((write, end) => {
      for (let piece = 0; piece < 20; piece += 1) write(Buffer.alloc(1024 * 1024, " "));
      write(Buffer.from('{"usage":{"prompt_tokens":3,"completion_tokens":2}}'));
      end();
    });
    expect(usages).toEqual([{ inputTokens: 0, outputTokens: 0, requests: 1 }]);
  });
});

// Claim: whatever a token endpoint sends, getting a token ends. docs/security.md.
describe("what gives tokens and sends", () => {
  const paths = {
    "metadata of the resource": "/.well-known/oauth-protected-resource/mcp",
    "metadata of the authorization server": "/.well-known/oauth-authorization-server",
    "a token": "/token",
  } as const;

  /** A server that wants tokens, and its own authorization server, which at one path answers as told. */
  async function tokenFrom(path: string, answer: Endless, mostMs = 20_000): Promise<unknown> {
    const server = await startEndless((request, url) => {
      const known: Readonly<Record<string, object>> = {
        [paths["metadata of the resource"]]: { resource: `${url}/mcp`, authorization_servers: [url] },
        [paths["metadata of the authorization server"]]: {
          issuer: url,
          authorization_endpoint: `${url}/authorize`,
          token_endpoint: `${url}/token`,
          response_types_supported: ["code"],
        },
        "/token": { access_token: "canary-token", token_type: "Bearer" },
      };
      if (request.url === path) return answer;
      const body = known[request.url ?? ""];
      return { status: body === undefined ? 404 : 200, begin: JSON.stringify(body ?? {}), end: "" };
    });
    const auth: OAuthSpec = {
      kind: "client-credentials",
      clientId: "me",
      clientSecret: "canary-secret",
      issuer: server.url,
    };
    const source = new TokenSource({ url: `${server.url}/mcp`, auth }, () => undefined, mostMs);
    return source.renew(undefined, {}).catch((error: unknown) => error);
  }

  it.each(Object.entries(paths))("%s without an end is not read on", async (name, path) => {
    for (const answer of [
      { begin: '{"x":"', again: "x" },
      { begin: '{"x":[', again: "{}," },
      { begin: "[", again: "[" },
    ]) {
      const given = await tokenFrom(path, answer);
      // What the server under test says of itself is only a hint.
      if (name === "metadata of the resource" && given === "canary-token") continue;
      expect(given).toMatchObject({
        code: "server/unauthorized",
        message: expect.stringMatching(/more than (?:1 MiB|10000 values|500 levels)/) as string,
      });
    }
  });

  it.each(Object.entries(paths))("%s that never ends takes no longer than it may", async (_, path) => {
    expect(await tokenFrom(path, { begin: "{" }, 300)).toMatchObject({
      code: "server/unauthorized",
      message: expect.stringContaining("it took more than 0.3 seconds") as string,
    });
  });

  it.each([
    ["too long", "x".repeat(9000), "longer than 8192 characters"],
    ["no text of a header", "canary token\n", "characters that are not allowed in a header"],
  ])("a token that is %s is none", async (_, token, why) => {
    const answer = { begin: JSON.stringify({ access_token: token, token_type: "Bearer" }), end: "" };
    const error = await tokenFrom("/token", answer);
    expect(error).toMatchObject({
      code: "server/unauthorized",
      message: expect.stringContaining(why) as string,
    });
    expect(String(error)).not.toContain("canary");
  });

  it("a server that refuses every token after its first use is given no more than a thousand", async () => {
    let given = 0;
    const server = await startEndless((request, url) => {
      if (request.url === "/.well-known/oauth-authorization-server")
        return {
          begin: JSON.stringify({
            issuer: url,
            authorization_endpoint: `${url}/a`,
            token_endpoint: `${url}/token`,
            response_types_supported: ["code"],
          }),
          end: "",
        };
      if (request.url !== "/token") return { status: 404, end: "" };
      given += 1;
      return { begin: JSON.stringify({ access_token: `canary-${given}`, token_type: "Bearer" }), end: "" };
    });
    const auth: OAuthSpec = {
      kind: "client-credentials",
      clientId: "me",
      clientSecret: "canary-secret",
      issuer: server.url,
    };
    const source = new TokenSource({ url: `${server.url}/mcp`, auth }, () => undefined);
    let token: string | undefined;
    const renewAll = async (): Promise<void> => {
      for (;;) token = await source.renew(token, {});
    };
    await expect(renewAll()).rejects.toMatchObject({
      code: "server/unauthorized",
      message: expect.stringContaining("refused 1000 tokens") as string,
    });
    expect(given).toBe(1000);
  });
});

describe("a redirect of a server to somewhere else", () => {
  it("takes neither its headers nor its messages there", async () => {
    const other = await startEndless(() => ({ begin: "{}", end: "" }));
    const server = await startEndless(() => ({
      status: 307,
      headers: { location: `${other.url}/mcp` },
      end: "",
    }));
    const own = createServerFetch({ url: server.url, headers: { "X-Api-Key": "canary" } });
    const response = await own(server.url, { method: "POST", body: "canary" });
    expect([response.status, other.requests]).toEqual([307, []]);
  });

  it("is followed within its own address", async () => {
    const server = await startEndless((request) =>
      request.url === "/mcp"
        ? { status: 307, headers: { location: "/mcp/" }, end: "" }
        : { begin: String(request.headers["x-api-key"]), end: "" },
    );
    const own = createServerFetch({ url: server.url, headers: { "X-Api-Key": "mine" } });
    const response = await own(`${server.url}/mcp`, { method: "POST", body: "hello" });
    expect([response.status, await response.text()]).toEqual([200, "mine"]);
    expect(server.requests.at(-1)).toBe("POST /mcp/ hello");
  });
});
