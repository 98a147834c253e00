import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { JsonObject } from "../../src/base/json.ts";
import type { OAuthSpec } from "../../src/model/server.ts";
import { createRedactor, type Secret } from "../../src/trace/redact.ts";
import { createServerRequests } from "../../src/servers/http/server-requests.ts";
import { onTokenIssued } from "../../src/servers/http/oauth-tokens.ts";
import {
  type ProtectedOptions,
  type ProtectedServer,
  startProtectedServer,
} from "../fixtures/servers/protected-server.ts";
import { callOptions, failToStart, httpSpec, rejection, startSession } from "./support.ts";

async function protect(options: ProtectedOptions = {}): Promise<ProtectedServer> {
  const server = await startProtectedServer(options);
  onTestFinished(() => server.close());
  return server;
}

function credentials(server: ProtectedServer, changes: Partial<OAuthSpec> = {}): OAuthSpec {
  const { clientSecret } = server;
  const { origin: issuer } = new URL(server.url);
  return { kind: "client-credentials", clientId: "me", clientSecret, issuer, ...changes } as OAuthSpec;
}

async function stored(
  server: ProtectedServer,
  tokens: JsonObject,
  mode = 0o600,
): Promise<OAuthSpec & { kind: "stored" }> {
  const folder = await mkdtemp(join(tmpdir(), "mcpvals-tokens-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, "tokens.json");
  await writeFile(file, JSON.stringify(tokens), { mode });
  return { kind: "stored", file, clientId: "me", issuer: new URL(server.url).origin };
}

async function call(server: ProtectedServer, auth: OAuthSpec, times = 1): Promise<readonly string[]> {
  const { session } = await startSession(httpSpec(server.url, { auth }));
  const texts: string[] = [];
  for (let time = 0; time < times; time += 1) {
    const outcome = await session.callTool("echo", { text: "hi" }, callOptions());
    if (outcome.kind !== "result") throw new Error(JSON.stringify(outcome));
    const [{ text }] = outcome.result["content"] as [{ text: string }];
    texts.push(text);
  }
  return texts;
}

describe("client credentials", () => {
  test("are exchanged for one token that all sessions share", async () => {
    const server = await protect();
    const auth = credentials(server, { scope: "read" });
    const texts = await Promise.all([call(server, auth), call(server, auth), call(server, auth)]);
    expect(texts.flat()).toEqual(Array.from({ length: 3 }, () => "hi Bearer canary-access-token-1"));
    expect(server.tokenRequests).toEqual([
      {
        form: { grant_type: "client_credentials", scope: "read", resource: server.url },
        authorization: `Basic ${Buffer.from(`me:${server.clientSecret}`).toString("base64")}`,
      },
    ]);
  });

  test("work when only the 401 response names the URL of the metadata", async () => {
    const server = await protect({ metadataPath: "/elsewhere" });
    expect(await call(server, credentials(server))).toEqual(["hi Bearer canary-access-token-1"]);
    expect(server.tokenRequests[0]?.form["scope"]).toBe("mcp");
  });

  test("are exchanged again when the token expires during a session", async () => {
    const server = await protect({ callsPerToken: 2 });
    const texts = await call(server, credentials(server), 5);
    expect(texts.map((text) => text.at(-1))).toEqual(["1", "1", "2", "2", "3"]);
  });

  test.each<[string, ProtectedOptions, Partial<OAuthSpec>, RegExp, RegExp]>([
    [
      "a wrong secret",
      {},
      { clientSecret: "canary-wrong" },
      /refused a token: invalid_client: wrong secret \[secret:client_secret\]/,
      /client secret/,
    ],
    [
      "a grant that is not allowed",
      { refuse: { error: "unauthorized_client", error_description: "not you" } },
      {},
      /refused a token: unauthorized_client: not you/,
      /grant/,
    ],
    [
      "an authorization server without metadata",
      { noMetadata: true },
      {},
      /\S+ has no metadata, and gave no token: nothing here$/,
      /./,
    ],
    ["another authorization server", {}, { issuer: "http://127.0.0.1:9" }, /not the expected/, /./],
    [
      "a server that refuses the new token",
      { refuseAll: true },
      {},
      /refuses the new access token/,
      /audience/,
    ],
  ])("%s", async (_name, options, changes, message, hint) => {
    const server = await protect(options);
    const { error, record } = await failToStart(httpSpec(server.url, { auth: credentials(server, changes) }));
    expect(error.code).toBe("server/unauthorized");
    expect(error.message).toMatch(message);
    expect(error.details.hint).toMatch(hint);
    expect(JSON.stringify([error.message, error.details, String(error.cause), record.events])).not.toMatch(
      /canary/,
    );
  });

  test("a broken connection is not taken for a refusal", async () => {
    const server = await protect();
    const auth = credentials(server);
    await server.close();
    const { error } = await failToStart(httpSpec(server.url, { auth }));
    expect(error.code).toBe("server/unreachable");
  });
});

describe("stored tokens", () => {
  test("are used unchanged while they are valid", async () => {
    const server = await protect({ goodToken: "canary-stored" });
    const auth = await stored(server, { access_token: "canary-stored" });
    expect(await call(server, auth)).toEqual(["hi Bearer canary-stored"]);
    expect(server.tokenRequests).toEqual([]);
  });

  test("are refreshed once for all sessions, and written back with their other fields", async () => {
    const server = await protect();
    const auth = await stored(
      server,
      { access_token: "old", refresh_token: server.refreshToken, note: "kept", expires_at: 1 },
      0o640,
    );
    const texts = await Promise.all([call(server, auth), call(server, auth), call(server, auth)]);
    expect(new Set(texts.flat())).toEqual(new Set(["hi Bearer canary-access-token-1"]));
    expect(server.tokenRequests).toHaveLength(1);
    expect(server.tokenRequests[0]?.form).toMatchObject({ grant_type: "refresh_token", client_id: "me" });
    expect(JSON.parse(await readFile(auth.file, "utf8"))).toEqual({
      access_token: "canary-access-token-1",
      refresh_token: "canary-refresh-token-1",
      token_type: "Bearer",
      expires_in: 3600,
      expires_at: expect.closeTo(Date.now() / 1000 + 3600, -2) as number,
      note: "kept",
    });
    expect((await stat(auth.file)).mode & 0o777).toBe(0o640);
    expect(await readdir(join(auth.file, ".."))).toEqual(["tokens.json"]);
  });

  test("that another process has refreshed are read from the file", async () => {
    const server = await protect({ goodToken: "canary-fresh" });
    const auth = await stored(server, { access_token: "old" });
    const own = createServerRequests({ ...httpSpec(server.url), auth });
    const post = { method: "POST", headers: {} };
    await expect(own(new URL(server.url), post)).rejects.toMatchObject({ code: "server/unauthorized" });
    await writeFile(auth.file, JSON.stringify({ access_token: "canary-fresh" }));
    expect((await own(new URL(server.url), { ...post, body: "{}" })).status).not.toBe(401);
  });

  test.each<[string, JsonObject, RegExp]>([
    ["without a refresh token", { access_token: "canary-old" }, /was refused, and there is no refresh_token/],
    [
      "with a used refresh token",
      { access_token: "canary-old", refresh_token: "canary-used" },
      /invalid_grant/,
    ],
    ["without any token", { note: "?" }, /neither an access_token nor a refresh_token/],
  ])("%s", async (_name, tokens, message) => {
    const server = await protect();
    const { error } = await failToStart(httpSpec(server.url, { auth: await stored(server, tokens) }));
    expect(error).toMatchObject({
      code: "server/unauthorized",
      message: expect.stringMatching(message) as string,
    });
    expect(error.details.hint).toMatch(/[Ll]og in again/);
    expect(JSON.stringify([error.message, error.details])).not.toMatch(/canary/);
  });

  test("in a file that is not JSON or does not exist", async () => {
    const server = await protect();
    const auth = await stored(server, {});
    await writeFile(auth.file, '{"access_token": "canary');
    const { error } = await failToStart(httpSpec(server.url, { auth }));
    expect(error.message).toContain(`the tokens in ${auth.file}: it cannot be read: it is not JSON`);
    await rm(auth.file);
    const { error: missing } = await failToStart(httpSpec(server.url, { auth }));
    expect(missing.message).toContain("ENOENT");
  });
});

test("listeners get a token before it is used, so that it is always redacted", async () => {
  const server = await protect();
  const issued: Secret[] = [];
  const redact = createRedactor([]);
  using _ = onTokenIssued((secret) => {
    issued.push(secret);
    redact.add(secret);
  });
  const auth = credentials(server);
  const texts = await call(server, auth);
  expect(issued).toEqual([
    { name: "client_secret", value: server.clientSecret },
    { name: "access_token", value: "canary-access-token-1" },
  ]);
  expect(redact(texts)).toEqual(["hi Bearer [secret:access_token]"]);
  const late: Secret[] = [];
  onTokenIssued((secret) => late.push(secret))[Symbol.dispose]();
  expect(late).toEqual(issued);
});

test("listeners get stored tokens, also one that is not used", async () => {
  const server = await protect({ goodToken: "canary-stored" });
  const tokens = { access_token: "canary-stored", refresh_token: "canary-unused" };
  const issued: Secret[] = [];
  using _ = onTokenIssued((secret) => issued.push(secret));
  await call(server, await stored(server, tokens));
  expect(issued).toContainEqual({ name: "refresh_token", value: "canary-unused" });
});

test("aborting one caller does not abort the token request of the others", async () => {
  const server = await protect();
  const own = createServerRequests({ ...httpSpec(server.url), auth: credentials(server) });
  const gone = AbortSignal.abort(new Error("gave up"));
  await expect(
    rejection(own(new URL(server.url), { method: "POST", headers: {}, signal: gone })),
  ).rejects.toThrow("gave up");
});
