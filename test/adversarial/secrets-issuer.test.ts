import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { OAuthSpec } from "../../src/core/formats/model.ts";
import { TokenSource } from "../../src/servers/http/oauth-tokens.ts";
import { folderOf } from "../support/cli.ts";
import { type Endless, type EndlessServer, startEndless } from "../support/endless.ts";

const secret = "canary-client-secret";
const refreshToken = "canary-refresh-token";

/** An authorization server that gives tokens to anybody, and says of itself what it is told to. */
function startIssuer(changes: (url: string) => object = () => ({})): Promise<EndlessServer> {
  return startEndless((request, url) => {
    const metadata = {
      issuer: url,
      authorization_endpoint: `${url}/authorize`,
      token_endpoint: `${url}/token`,
      response_types_supported: ["code"],
      ...changes(url),
    };
    if (request.url === "/.well-known/oauth-authorization-server") return json(metadata);
    return request.url === "/token" ? json({ access_token: "good", token_type: "Bearer" }) : notFound;
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

const json = (value: object): Endless => ({ begin: JSON.stringify(value), end: "" });
const notFound: Endless = { status: 404, end: "" };

/** Both ways in which a secret leaves: a client's secret, and a refresh token out of a file. */
const ways: readonly (readonly [string, (issuer: string | undefined) => OAuthSpec])[] = [
  [
    "client secret",
    (issuer) => ({
      kind: "client-credentials",
      clientId: "me",
      clientSecret: secret,
      ...(issuer === undefined ? {} : { issuer }),
    }),
  ],
  [
    "refresh token",
    (issuer) => {
      const folder = folderOf({});
      onTestFinished(() => folder[Symbol.dispose]());
      const file = join(folder.path, "tokens.json");
      const content = { access_token: "old", refresh_token: refreshToken, client_id: "me", issuer };
      writeFileSync(file, JSON.stringify(content));
      return { kind: "stored", file };
    },
  ],
];

async function renew(server: EndlessServer, auth: OAuthSpec, hint = {}): Promise<unknown> {
  const source = new TokenSource({ url: `${server.url}/mcp`, auth }, () => undefined, 10_000);
  return source.renew("old", hint).catch((error: unknown) => error);
}

// Claim: secrets go to the authorization server that the user named, and to nobody that a server names.
// docs/servers.md, "OAuth"; docs/security.md, "Secrets".
describe.each(ways)("a %s", (_, authFor) => {
  it("goes to nobody as long as no issuer is configured, and the message says how", async () => {
    const evil = await startIssuer();
    const server = await startServer(evil.url);
    expect(await renew(server, authFor(undefined))).toMatchObject({
      code: "server/unauthorized",
      details: { hint: `If the secret is meant for it, write \`issuer: ${evil.url}/\` into \`auth\`.` },
    });
    expect(evil.requests).toEqual([]);
  });

  it("goes to the issuer that is configured", async () => {
    const issuer = await startIssuer();
    for (const server of [await startServer(issuer.url), await startServer()])
      expect(await renew(server, authFor(issuer.url))).toBe("good");
    expect(issuer.requests.join("\n")).toMatch(/grant_type=/);
  });

  it("does not go to another one that the server names", async () => {
    const [good, evil] = [await startIssuer(), await startIssuer()];
    const server = await startServer(evil.url);
    expect(String(await renew(server, authFor(good.url)))).toContain("not the expected");
    expect([good.requests, evil.requests]).toEqual([[], []]);
  });

  it("does not go to one that says it was another", async () => {
    const good = await startIssuer();
    const evil = await startIssuer(() => ({ issuer: good.url }));
    for (const server of [await startServer(evil.url), await startServer(evil.url, good.url)])
      await renew(server, authFor(good.url));
    expect(evil.requests.filter((request) => request.startsWith("POST"))).toEqual([]);
    expect(await renew(await startServer(), authFor(evil.url))).toMatchObject({
      code: "server/unauthorized",
    });
    expect(evil.requests.filter((request) => request.startsWith("POST"))).toEqual([]);
  });

  it("does not follow a redirect to another place", async () => {
    const evil = await startEndless(() => json({ access_token: "stolen", token_type: "Bearer" }));
    const good = await startEndless((request, url) => {
      if (request.url === "/token")
        return { status: 307, headers: { location: `${evil.url}/token` }, end: "" };
      return request.url === "/.well-known/oauth-authorization-server"
        ? json({
            issuer: url,
            authorization_endpoint: `${url}/authorize`,
            token_endpoint: `${url}/token`,
            response_types_supported: ["code"],
          })
        : notFound;
    });
    expect(await renew(await startServer(), authFor(good.url))).toMatchObject({
      code: "server/unauthorized",
    });
    expect(evil.requests).toEqual([]);
  });

  it("does not depend on what the server says at an address of others", async () => {
    const [good, evil] = [await startIssuer(), await startIssuer()];
    const server = await startServer();
    const hint = { resourceMetadataUrl: new URL(`${evil.url}/metadata`) };
    expect(await renew(server, authFor(good.url), hint)).toBe("good");
    expect(evil.requests).toEqual([]);
  });
});
