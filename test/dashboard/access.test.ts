import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, calcConfig, runAndOpen } from "./support.ts";

let dashboard: Awaited<ReturnType<typeof runAndOpen>>;
let port: number;
let run: string;

beforeAll(async () => {
  dashboard = await runAndOpen(calcConfig);
  ({ port } = dashboard.served);
  run = `/api/runs/${dashboard.id}`;
});
afterAll(() => dashboard[Symbol.asyncDispose]());

const asked = (path: string, headers: Readonly<Record<string, string>> = {}, method = "GET") =>
  ask(port, path, { method, headers: { cookie: dashboard.cookie, ...headers } });

describe("who may read the dashboard", () => {
  it("sets a cookie for the token, and leads to the address without it", async () => {
    const { pathname, search } = new URL(dashboard.served.address());
    const { status, headers } = await ask(port, `${pathname}${search}`);
    expect({ status, location: headers.location }).toEqual({ status: 303, location: "/" });
    expect(headers["set-cookie"]?.[0]).toMatch(
      new RegExp(`^mcpvals-${port}=[\\w-]{32}; Path=/; HttpOnly; SameSite=Strict$`),
    );
  });

  it("leads to no other host", async () => {
    const { search } = new URL(dashboard.served.address());
    for (const path of ["//evil.example/", "///evil.example/", "/\\evil.example/"]) {
      const { headers } = await ask(port, `${path}${search}`);
      expect(headers.location).toBe("/evil.example/");
    }
  });

  it("takes the token that opens a browser only once", async () => {
    const { pathname, search } = new URL(dashboard.served.addressForOnce("/runs/x"));
    const answers = [await ask(port, `${pathname}${search}`), await ask(port, `${pathname}${search}`)];
    expect(answers.map(({ status }) => status)).toEqual([303, 401]);
  });

  it.each(["/", "/app.js", "/api/runs", "/api/nothing", "/?token=wrong", "/?token="])(
    "says what to do at %s without the token",
    async (path) => {
      for (const cookie of ["", `mcpvals-${port}=wrong`, `other=${dashboard.cookie}`]) {
        const { status, text } = await ask(port, path, { headers: { cookie, accept: "text/html" } });
        expect(status).toBe(401);
        expect(text).toContain("Open the address that mcpvals printed");
        expect(text).not.toContain(dashboard.id);
      }
    },
  );

  it.each([
    "evil.example",
    "evil.example:PORT",
    "127.0.0.1.evil.example:PORT",
    "127.0.0.1:1",
    "127.0.0.1",
    "localhost",
  ])("refuses the Host %s, as after DNS rebinding", async (host) => {
    const { status } = await asked("/api/runs", { host: host.replace("PORT", String(port)) });
    expect(status).toBe(421);
  });

  it("answers localhost, too", async () => {
    expect((await asked("/api/runs", { host: `localhost:${port}` })).status).toBe(200);
  });

  it.each([
    { origin: "http://evil.example" },
    { origin: "null" },
    { origin: "http://127.0.0.1:1" },
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "whatever" },
  ])("refuses what a page elsewhere asks: %o", async (headers) => {
    for (const path of ["/", "/api/runs", `${run}/live`, `${run}/trials/t1/live`])
      expect((await asked(path, headers)).status).toBe(403);
  });

  it("answers its own pages", async () => {
    const own = { origin: `http://127.0.0.1:${port}`, "sec-fetch-site": "same-origin" };
    expect((await asked("/api/runs", own)).status).toBe(200);
    expect((await asked("/", { "sec-fetch-site": "none" })).status).toBe(200);
  });

  it.each(["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])("refuses %s", async (method) => {
    const { status, headers } = await asked("/api/runs", {}, method);
    expect({ status, allow: headers.allow }).toEqual({ status: 405, allow: "GET, HEAD" });
  });

  it("answers HEAD without content", async () => {
    const { status, text } = await asked("/api/runs", {}, "HEAD");
    expect({ status, text }).toEqual({ status: 200, text: "" });
  });
});

describe("every answer", () => {
  it.each(["/", "/app.js", "/api/runs", "/api/nothing", "/api/runs/x/live"])(
    "of %s has the policy that allows nothing foreign",
    async (path) => {
      const { headers } = await asked(path);
      expect(headers).toMatchObject({
        "content-security-policy": expect.stringMatching(
          /^default-src 'none'; script-src 'self'; style-src 'self'; .*frame-ancestors 'none'$/,
        ) as string,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
      });
    },
  );

  it("lets no other page read it", async () => {
    const { headers } = await asked("/api/runs", { origin: `http://127.0.0.1:${port}` });
    expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

describe("paths", () => {
  it.each([
    "/../package.json",
    "/%2e%2e/package.json",
    "//evil.example/api/runs",
    "/app.js/../../package.json",
    "/api/runs/..",
    "/api/runs/%2e%2e%2fruns",
    "/api/runs/..%2f..%2fsecret",
    "/api/runs/%00",
    "/api/runs/%",
    "/api/runs/ID/trials/..%2ft1",
    "/api/runs/ID/trials/__proto__",
    "/api/runs/ID/trials/t1/events/-1",
    "/api/runs/ID/trials/t1/events/1e9",
    "/api/runs/ID/trials/t1/events/1?pointer=/__proto__",
    "/api/runs/ID/trials/t1/events/1?pointer=/constructor/name",
    "/api/runs/ID/trials/t1/more",
    "/api/runs/ID/more",
    "/constructor",
    "/__proto__",
  ])("finds nothing at %s", async (path) => {
    writeFileSync(join(dashboard.path, "secret"), "hidden");
    const { status, text } = await asked(path.replace("ID", dashboard.id));
    expect(status).toBe(404);
    expect(text).not.toMatch(/hidden|"dependencies"/);
  });

  it("shows text from outside in an error page as text", async () => {
    const { text } = await asked("/api/runs/<script>alert(1)<%2fscript>", { accept: "text/html" });
    expect(text).toContain("&#60;script&#62;");
    expect(text).not.toContain("<script");
  });
});
