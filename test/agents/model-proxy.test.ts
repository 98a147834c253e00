import type { IncomingMessage, ServerResponse } from "node:http";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished } from "vitest";
import { startModelProxy, withModelProxy } from "../../src/agents/model-proxy.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { startHttp } from "../support/http.ts";
import type { Usage } from "../../src/model/grade.ts";

async function startProxy(target: string): Promise<{ url: string; usages: Usage[] }> {
  const usages: Usage[] = [];
  const proxy = await startModelProxy({ target, onUsage: (usage) => usages.push(usage) });
  onTestFinished(() => proxy.close());
  return { url: proxy.url, usages };
}

const post = (url: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

const chat = { usage: { prompt_tokens: 3, completion_tokens: 2 } };
const counted: Usage = { inputTokens: 3, outputTokens: 2, requests: 1 };

describe("startModelProxy", () => {
  it("counts the tokens of each answer", async () => {
    const usage = { input: 100, output: 7, cacheRead: 20 };
    await using provider = await startFakeProvider([{ text: "one", usage }, { text: "two" }]);
    const { url, usages } = await startProxy(provider.url);
    const body = { model: "m", max_tokens: 9, messages: [{ role: "user", content: "hello" }] };
    for (const text of ["one", "two"]) {
      const headers = { "x-api-key": "k", "anthropic-version": "2023-06-01" };
      const answer = await post(`${url}/v1/messages`, body, headers);
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining(text)]);
    }
    expect(usages).toMatchObject([
      { inputTokens: 100, outputTokens: 7, cacheReadTokens: 20, requests: 1 },
      { inputTokens: 10, outputTokens: 5, cacheReadTokens: 0, requests: 1 },
    ]);
  });

  it("passes requests and answers on as they are, below the path of the API", async () => {
    let seen: IncomingMessage | undefined;
    const api = await startHttp((request, response) => {
      seen = request;
      response.writeHead(418, "Teapot", { "x-request-id": "7", "set-cookie": ["a=1", "b=2"] });
      request.pipe(response);
    });
    const { url, usages } = await startProxy(`${api}/base/`);
    const answer = await post(`${url}/v1/messages?beta=true&x=%2F`, { a: "ü" }, { "x-api-key": "secret" });
    expect([answer.status, answer.headers.get("x-request-id"), answer.headers.getSetCookie()]).toEqual([
      418,
      "7",
      ["a=1", "b=2"],
    ]);
    expect(await answer.text()).toBe('{"a":"ü"}');
    expect([seen?.method, seen?.url, seen?.headers["x-api-key"], seen?.headers.host]).toEqual([
      "POST",
      "/base/v1/messages?beta=true&x=%2F",
      "secret",
      api.replace("http://", ""),
    ]);
    expect(usages).toEqual([]);
  });

  it("passes a stream on piece by piece, and counts at its end", async () => {
    let open: ServerResponse | undefined;
    const api = await startHttp((_, response) => {
      open = response;
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write('data: {"choices":[]}\n\n');
    });
    const { url, usages } = await startProxy(api);
    const answer = await post(`${url}/v1/chat/completions`, {});
    const reader = answer.body?.getReader();
    const first = await reader?.read();
    expect(Buffer.from(first?.value ?? []).toString()).toBe('data: {"choices":[]}\n\n');
    expect(usages).toEqual([]);
    open?.end(`data: ${JSON.stringify(chat)}\n\n`);
    while ((await reader?.read())?.done === false);
    await expect.poll(() => usages).toEqual([counted]);
  });

  it("counts what was told of an answer that the program did not wait for", async () => {
    const api = await startHttp((_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${JSON.stringify(chat)}\n\n`);
    });
    const { url, usages } = await startProxy(api);
    const controller = new AbortController();
    const answer = await fetch(`${url}/v1/messages`, { method: "POST", signal: controller.signal });
    await answer.body?.getReader().read();
    controller.abort();
    await expect.poll(() => usages).toEqual([counted]);
  });

  it.each([
    ["gzip", gzipSync],
    ["br", brotliCompressSync],
  ])("reads what is packed as %s, and passes it on packed", async (encoding, pack) => {
    const packed = pack(JSON.stringify(chat));
    const api = await startHttp((_, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-encoding": encoding });
      response.end(packed);
    });
    const { url, usages } = await startProxy(api);
    const answer = await post(`${url}/chat/completions`, {});
    expect(answer.headers.get("content-encoding")).toBe(encoding);
    expect(await answer.json()).toEqual(chat);
    await expect.poll(() => usages).toEqual([counted]);
  });

  it("counts only what a model answered well", async () => {
    const api = await startHttp((request, response) => {
      response.writeHead(request.url?.includes("bad") === true ? 500 : 200);
      response.end(JSON.stringify(chat));
    });
    const { url, usages } = await startProxy(api);
    await (await fetch(`${url}/v1/messages`)).text();
    for (const path of ["/bad/v1/messages", "/v1/messages/count_tokens", "/v1/embeddings"])
      await (await post(`${url}${path}`, {})).text();
    expect(usages).toEqual([]);
  });

  it("is closed to whoever does not know its secret", async () => {
    let asked = 0;
    const api = await startHttp((_, response) => {
      asked += 1;
      response.end();
    });
    const { url } = await startProxy(api);
    const { origin, pathname } = new URL(url);
    for (const path of ["/", "/v1/messages", `${pathname}x/v1/messages`])
      expect((await fetch(origin + path)).status).toBe(404);
    expect([asked, pathname]).toEqual([0, expect.stringMatching(/^\/[0-9a-f]{32}$/)]);
  });

  it("says so when the API cannot be reached", async () => {
    const { url } = await startProxy("http://127.0.0.1:1");
    const answer = await post(`${url}/v1/messages`, {});
    expect(answer.status).toBe(502);
    expect(await answer.text()).toContain("mcpvals could not reach the model's API");
  });

  it("cuts the program's side when the API cuts its own, and the other way around", async () => {
    const left = Promise.withResolvers<void>();
    let cut: ServerResponse | undefined;
    const api = await startHttp((request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("data: {}\n\n");
      if (request.url === "/cut") cut = response;
      else response.on("close", () => left.resolve());
    });
    const { url } = await startProxy(api);
    const answer = await fetch(`${url}/cut`);
    cut?.socket?.destroy();
    await expect(answer.text()).rejects.toThrow();
    const controller = new AbortController();
    await fetch(`${url}/stay`, { signal: controller.signal });
    controller.abort();
    await left.promise;
  });
});

describe("withModelProxy", () => {
  const usual = { target: "https://api.anthropic.com", variable: "ANTHROPIC_BASE_URL" };

  it.each([
    ["leads to the API that the program's own variable names", usual, "own"],
    ["leads to the API that was chosen", { ...usual, target: "" }, "chosen"],
  ])("%s", async (_, spec, answered) => {
    const own = await startHttp((_request, response) => response.end("own"));
    const chosen = await startHttp((_request, response) => response.end("chosen"));
    const program = {
      preset: "claude-code" as const,
      env: { ANTHROPIC_BASE_URL: own, OTHER: "kept" },
      modelProxy: spec.target === "" ? { ...spec, target: chosen } : spec,
    };
    let inside = "";
    await withModelProxy(program, { emit: () => 0 }, async (env) => {
      inside = env["ANTHROPIC_BASE_URL"] ?? "";
      expect(env["OTHER"]).toBe("kept");
      expect(await (await fetch(`${inside}/x`)).text()).toBe(answered);
    });
    await expect(fetch(inside)).rejects.toThrow();
  });
});
