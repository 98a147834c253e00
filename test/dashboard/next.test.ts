import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RunsDocument } from "../../src/report/documents/documents.ts";
import { createDashboardHandler, type DashboardHandlerOptions } from "../../src/dashboard/next.ts";
import { calcConfig, runAndOpen } from "./support.ts";

let recorded: Awaited<ReturnType<typeof runAndOpen>>;
beforeAll(async () => {
  recorded = await runAndOpen(calcConfig);
});
afterAll(() => recorded[Symbol.asyncDispose]());

const before = process.env["NODE_ENV"];
afterEach(() => {
  process.env["NODE_ENV"] = before;
});

/** What the handler answers to a request of a browser. */
function ask(
  address: string,
  options: Partial<DashboardHandlerOptions> = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const runs = join(recorded.path, ".mcpvals/runs");
  const { GET } = createDashboardHandler({ runs, basePath: "/evals", ...options });
  return GET(new Request(address, { headers }));
}

const local = "http://localhost:3000/evals";

describe("the handler for Next.js", () => {
  it("serves the app and its documents below its path", async () => {
    const page = await ask(local);
    expect([page.status, page.headers.get("content-security-policy")]).toEqual([
      200,
      expect.stringContaining("default-src 'none'"),
    ]);
    expect(await page.text()).toContain('src="/evals/app.js"');
    expect((await ask(`${local}/app.js`)).headers.get("content-type")).toContain("javascript");
    const { runs } = (await (await ask(`${local}/api/runs`)).json()) as RunsDocument;
    expect(runs.map(({ id }) => id)).toEqual([recorded.id]);
    const live = await ask(`${local}/api/runs/${recorded.id}/live`);
    expect(await live.text()).toContain("event: end");
    const withSlash = await ask(`${local}/`, { basePath: "/evals/" });
    expect(await withSlash.text()).toContain('src="/evals/app.js"');
    expect((await ask("http://localhost:3000/evals-of-others/api/runs")).status).toBe(404);
  });

  it("answers HEAD without content", async () => {
    const { GET } = createDashboardHandler({ runs: recorded.path, basePath: "/evals" });
    const answer = await GET(new Request(local, { method: "HEAD" }));
    expect([answer.status, await answer.text()]).toEqual([200, ""]);
  });

  it("answers no other host without authorize, and nobody in production", async () => {
    expect((await ask("http://app.example/evals/api/runs")).status).toBe(403);
    process.env["NODE_ENV"] = "production";
    const refused = await ask(`${local}/api/runs`);
    expect(refused.status).toBe(403);
    expect(await refused.text()).toContain("authorize");
  });

  it("answers those whom authorize lets in, also in production", async () => {
    process.env["NODE_ENV"] = "production";
    const authorize = async ({ headers }: Request): Promise<boolean> => headers.get("cookie") === "session=1";
    const address = "https://app.example/evals/api/runs";
    expect((await ask(address, { authorize })).status).toBe(403);
    expect((await ask(address, { authorize }, { cookie: "session=1" })).status).toBe(200);
    for (const headers of [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }])
      expect((await ask(address, { authorize }, { cookie: "session=1", ...headers })).status).toBe(403);
  });

  it("takes only true for a yes", async () => {
    const authorize = (() => "no") as unknown as () => boolean;
    expect((await ask(`${local}/api/runs`, { authorize })).status).toBe(403);
  });
});
