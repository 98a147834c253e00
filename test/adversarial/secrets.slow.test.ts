import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import type { OAuthSpec } from "../../src/model/server.ts";
import { shortened } from "../../src/base/visible-text.ts";
import { createRedactor } from "../../src/trace/redact.ts";
import { evaluate } from "../../src/evaluate.ts";
import { WholeLines } from "../../src/process/program-output.ts";
import { TokenSource } from "../../src/servers/http/oauth-tokens.ts";
import { invalidLineText } from "../../src/servers/connections/host.ts";
import { fixtureServer } from "../e2e/support.ts";
import { answer, startHttpFixture } from "../fixtures/servers/http-server.ts";
import { folderOf } from "../support/cli.ts";
import { type Endless, type EndlessServer, issuerMetadata, startEndless } from "../support/hostile.ts";

const value = "Canary+secret/4711-äöü-AbCdEfGh";
const redact = createRedactor([{ name: "KEY", value }]);
const bytes = Buffer.from(value);
const base64 = bytes.toString("base64");
const hex = bytes.toString("hex");

describe("a secret is removed in every usual encoding", () => {
  it.each<[encoding: string, text: string]>([
    ["base64", base64],
    ["base64", base64.replace(/=+$/, "")],
    ["base64", bytes.toString("base64url")],
    ["base64", encodeURIComponent(base64)],
    ["base64", JSON.stringify(JSON.stringify(base64.replaceAll("/", String.raw`\/`)))],
    ["hex", hex],
    ["hex", hex.toUpperCase()],
    ["percent", hex.replaceAll(/../g, "%$&")],
    ["percent", hex.toUpperCase().replaceAll(/../g, "%$&")],
    ["upper case", value.toUpperCase()],
    ["lower case", value.toLowerCase()],
  ])("%s: %s", (encoding, text) => {
    const mark = new RegExp(String.raw`^before \S*\[secret:KEY ${encoding}\]\S* after$`);
    expect(redact(`before ${text} after`)).toMatch(mark);
    expect(redact.isClean(JSON.stringify({ text }))).toBe(false);
  });

  it.each(["&#39;", "&#x27;", "&apos;"])("HTML with %s", (apostrophe) => {
    const named = createRedactor([{ name: "KEY", value: `a<b>&"c"'d-secret` }]);
    const html = `<p>a&lt;b&gt;&amp;&quot;c&quot;${apostrophe}d-secret</p>`;
    expect(named(html)).toBe("<p>[secret:KEY html]</p>");
  });

  it("Base64, wherever in the encoded bytes it is", () => {
    const around = fc.string({ maxLength: 9 });
    const secrets = fc.string({ minLength: 8, unit: "binary" }).filter((text) => text.isWellFormed());
    const property = fc.property(around, around, secrets, (before, after, secret) => {
      const encoded = Buffer.from(`${before}${secret}${after}`).toString("base64");
      const clean = createRedactor([{ name: "S", value: secret }])(encoded);
      const left = Buffer.from(clean.replaceAll(/\[[^\]]*\]/g, "")).toString();
      expect(clean).toMatch(/\[secret:S base64\]|\[\*\*\*\]/);
      expect(Buffer.from(left, "base64").includes(secret)).toBe(false);
    });
    fc.assert(property);
  });
});

// A run without evidence never passes.
describe("the mark of a secret proves nothing but the secret itself", () => {
  it.each([
    ["the secret", value, "pass"],
    ["the mark itself", "[secret:MY_TOKEN]", "fail"],
    ["another mark", "[***]", "fail"],
    ["an encoding of it", base64, "fail"],
    ["the other half", value.slice(16), "fail"],
  ])("an agent that says %s", async (_, say, verdict) => {
    const config = {
      server: fixtureServer(),
      agent: { type: "scripted" as const, plan: { w: [{ say }] } },
      workflows: [{ name: "w", steps: [{ user: "Say the token.", expectedState: "${MY_TOKEN}" }] }],
    };
    const { trials } = await evaluate(config, { output: false, env: { MY_TOKEN: value } });
    const grade = trials[0]?.grades.find(({ grader }) => grader === "end-to-end-success");
    expect(grade?.verdict).toBe(verdict);
  });
});

describe("a part of a secret of eight characters or more is removed where a text was cut", () => {
  it.each<[string, unknown]>([
    ["two blocks of one message", [{ text: `a ${value.slice(0, 12)}` }, { text: `${value.slice(12)} b` }]],
    ["two texts of a list", [value.slice(0, 20), value.slice(20)]],
    ["lines", `a\n${value.slice(0, 15)}\r\n${value.slice(15)}\nb`],
    ["an excerpt", `HTTP 500: ${value.slice(0, 17)}…; the next attempt`],
    ["an end", `…${value.slice(9)} is wrong`],
    ["Base64 in two lines", base64.replace(/^.{20}/, "$&\n")],
  ])("%s", (_, cut) => {
    const clean = JSON.stringify(redact(cut));
    expect(clean.match(/\[part of secret:KEY(?: base64)?\]/g)).not.toBeNull();
    for (const form of [value, base64])
      for (let at = 0; at + 8 <= form.length; at += 1)
        expect(clean).not.toContain(JSON.stringify(form.slice(at, at + 8)).slice(1, -1));
  });

  it.each([
    ["a line on stdout that is not a message", invalidLineText(Buffer.from(`${"x".repeat(1985)}${value}`))],
    ["an excerpt of an answer", shortened(`${"x".repeat(180)}${value}`, 195)],
  ])("%s", (_, cut) => {
    expect(redact(`it said ${JSON.stringify(cut)}, and more`)).not.toContain("Canary");
  });

  it("but not where it only looks like one", () => {
    const address = createRedactor([{ name: "HOOK", value: "https://hooks.example.com/services/T0/B0/xyz" }]);
    const prefix = `the prefix ${value.slice(0, 12)} of keys`;
    for (const text of ["see https://hooks.example.com/", prefix, `a\n${value.slice(0, 7)}`])
      expect([address(text), redact(text)]).toEqual([text, text]);
  });

  it.each([10, 8190, 8200, 100_000])("in a line of a program's output that is cut after %i bytes", (cut) => {
    const texts: string[] = [];
    const lines = new WholeLines((text) => texts.push(redact(text)));
    const line = Buffer.from(`${"x".repeat(cut)}${value}\n`);
    lines.push(line.subarray(0, cut + 12));
    lines.push(line.subarray(cut + 12));
    lines.finish();
    expect(texts.join("")).toBe(`${"x".repeat(cut)}[secret:KEY]\n`);
  });

  it("in time proportional to the text, however many secrets there are", () => {
    const secretOf = (index: number): string => `secret-${index}-${"ab".repeat(200)}`;
    const secrets = Array.from({ length: 500 }, (_, index) => ({
      name: `K${index}`,
      value: secretOf(index),
    }));
    const text = `${"The quick brown fox, secret-, abababab. ".repeat(10_000)}${secretOf(7)}`;
    const before = process.cpuUsage();
    expect(createRedactor(secrets)(text).endsWith("[secret:K7]")).toBe(true);
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(2500);
  });
});

describe("an echoed Authorization header is not recorded, decoded or not", () => {
  const pair = "ada:Canary-password-77";
  const basic = Buffer.from(pair).toString("base64");

  it.each(["Authorization", "X-Upstream"])("in the header %s of the config", async (header) => {
    const headers = { [header]: `Basic ${basic}` };
    const echo = await startHttpFixture(({ response, message }) => {
      if (message.method !== "tools/call") return false;
      const text = `${JSON.stringify(headers)} ${basic} ${pair} ${pair.slice(4)} ${pair.toUpperCase()}`;
      answer(response, { ...message, params: { arguments: { message: text } } });
      return true;
    });
    onTestFinished(() => echo.close());
    using folder = folderOf({});
    const suite = { name: "s", tests: [{ name: "echo", expectedResult: "no such text" }] };
    const server = { transport: "shttp", url: echo.url, headers } as const;
    const result = await evaluate({ server, toolHealthSuites: [suite] }, { cwd: folder.path });
    const written = writtenIn(folder.path) + JSON.stringify(result);
    expect(written).toContain("[secret:");
    for (const form of [basic, basic.slice(0, 12), "Canary", "CANARY", "ada:"])
      expect(written).not.toContain(form);
  });

  it.each([
    ["basic authentication is off", "basic authentication is off"],
    ["Basic understanding of tools", "Basic understanding of tools"],
    [
      `Authorization: Basic ${basic}, basic ${basic}`,
      "Authorization: Basic [secret:key], basic [secret:key]",
    ],
  ])("whoever sent it: %j", (text, clean) => {
    expect(redact(text)).toBe(clean);
  });
});

/** Every byte that a run has left in a folder. */
function writtenIn(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"))
    .join("\n");
}

const json = (body: object): Endless => ({ begin: JSON.stringify(body), end: "" });
const notFound: Endless = { status: 404, end: "" };

/** An authorization server that gives tokens to anybody; `changes` are to its metadata and its answer with a token. */
function startIssuer(metadata: object = {}, token = json({ access_token: "good", token_type: "Bearer" })) {
  return startEndless((request, url) => {
    if (request.url === "/.well-known/oauth-authorization-server")
      return json({ ...issuerMetadata(url), ...metadata });
    return request.url === "/token" ? token : notFound;
  });
}

/** A server under test that names authorization servers. */
function startServer(...issuers: readonly string[]): Promise<EndlessServer> {
  return startEndless((request, url) =>
    request.url === "/.well-known/oauth-protected-resource/mcp"
      ? json({ resource: `${url}/mcp`, authorization_servers: issuers })
      : notFound,
  );
}

/** Both ways in which a secret leaves: a client's secret, and a refresh token from a file. */
const ways: readonly (readonly [string, (issuer: { issuer?: string }) => OAuthSpec])[] = [
  [
    "client secret",
    (issuer) => {
      return { kind: "client-credentials", clientId: "me", clientSecret: "canary-client-secret", ...issuer };
    },
  ],
  [
    "refresh token",
    (issuer) => {
      const folder = folderOf({});
      onTestFinished(() => folder[Symbol.dispose]());
      const file = join(folder.path, "tokens.json");
      const tokens = { access_token: "old", refresh_token: "canary-refresh-token", client_id: "me" };
      writeFileSync(file, JSON.stringify({ ...tokens, ...issuer }));
      return { kind: "stored", file };
    },
  ],
];

// docs/servers.md, "OAuth".
describe.each(ways)("a %s goes only to the issuer in the config", (_, authFor) => {
  async function renew(server: EndlessServer, issuer?: EndlessServer, hint = {}): Promise<unknown> {
    const auth = authFor(issuer === undefined ? {} : { issuer: issuer.url });
    const source = new TokenSource({ url: `${server.url}/mcp`, auth }, () => undefined, 10_000);
    return source.renew("old", hint).catch((error: unknown) => error);
  }

  it("to nobody if there is none, and the message says what to do", async () => {
    const evil = await startIssuer();
    expect(await renew(await startServer(evil.url))).toMatchObject({
      code: "server/unauthorized",
      details: { hint: `If the secret is meant for it, write \`issuer: ${evil.url}/\` into \`auth\`.` },
    });
    expect(evil.requests).toEqual([]);
  });

  it("whether the server names it or not", async () => {
    const issuer = await startIssuer();
    for (const server of [await startServer(issuer.url), await startServer()])
      expect(await renew(server, issuer)).toBe("good");
    expect(issuer.requests.join("\n")).toMatch(/grant_type=/);
  });

  it("not to another one that the server names, in its metadata or at another address", async () => {
    const [good, evil] = [await startIssuer(), await startIssuer()];
    expect(String(await renew(await startServer(evil.url), good))).toContain("not the expected");
    expect([good.requests, evil.requests]).toEqual([[], []]);
    const hint = { resourceMetadataUrl: new URL(`${evil.url}/metadata`) };
    expect(await renew(await startServer(), good, hint)).toBe("good");
    expect(evil.requests).toEqual([]);
  });

  it("not to one that says it was another", async () => {
    const good = await startIssuer();
    const evil = await startIssuer({ issuer: good.url });
    for (const server of [await startServer(evil.url), await startServer(evil.url, good.url)])
      await renew(server, good);
    expect(evil.requests.filter((request) => request.startsWith("POST"))).toEqual([]);
    expect(await renew(await startServer(), evil)).toMatchObject({ code: "server/unauthorized" });
    expect(evil.requests.filter((request) => request.startsWith("POST"))).toEqual([]);
  });

  it("and does not follow its redirect", async () => {
    const evil = await startEndless(() => json({ access_token: "stolen", token_type: "Bearer" }));
    const redirect = { status: 307, headers: { location: `${evil.url}/token` }, end: "" };
    const good = await startIssuer({}, redirect);
    expect(await renew(await startServer(), good)).toMatchObject({ code: "server/unauthorized" });
    expect(evil.requests).toEqual([]);
  });
});
