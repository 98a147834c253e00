import { runHere, type HereOutcome } from "../support/cli.ts";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import {
  type ProtectedOptions,
  type ProtectedServer,
  startProtectedServer,
} from "../fixtures/servers/protected-server.ts";

async function protect(options: ProtectedOptions): Promise<ProtectedServer> {
  const server = await startProtectedServer(options);
  onTestFinished(() => server.close());
  return server;
}

interface Ran extends HereOutcome {
  /** Everything that the run left in its folder, and what it printed. */
  readonly written: string;
  readonly folder: string;
}

/** Calls the server's tool in four trials, with servers of one trial, so that there are four clients. */
async function runWith(
  server: ProtectedServer,
  auth: object,
  { files = {}, required }: { files?: Readonly<Record<string, string>>; required?: boolean } = {},
): Promise<Ran> {
  const folder = await mkdtemp(join(tmpdir(), "mcpvals-oauth-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const issuer = new URL(server.url).origin;
  const config = {
    server: {
      transport: "shttp",
      url: server.url,
      auth: { issuer, ...auth },
      lifetime: "per_trial",
      required,
    },
    toolHealthSuites: [
      {
        name: "echo",
        parallel: true,
        tests: [1, 2, 3, 4].map((number) => ({
          name: "echo",
          description: `echo ${number}`,
          args: { text: `hello ${number}` },
        })),
      },
    ],
  };
  await writeFile(join(folder, "mcp-eval.config.json"), JSON.stringify(config));
  for (const [name, text] of Object.entries(files))
    await writeFile(join(folder, name), text, { mode: 0o600 });
  const outcome = await runHere(["run"], { cwd: folder });
  const runs = join(folder, ".mcpvals");
  const names = existsSync(runs) ? await readdir(runs, { recursive: true, withFileTypes: true }) : [];
  const texts = await Promise.all(
    names
      .filter((entry) => entry.isFile())
      .map((entry) => readFile(join(entry.parentPath, entry.name), "utf8")),
  );
  return { ...outcome, folder, written: [...texts, outcome.stdout, outcome.stderr].join("\n") };
}

test("no token is written anywhere, however often it is renewed", async () => {
  const server = await protect({ callsPerToken: 2 });
  const { clientSecret } = server;
  const ran = await runWith(server, { type: "client-credentials", clientId: "me", clientSecret });
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(server.issued).toHaveLength(2);
  expect(ran.written).toContain("hello 4 Bearer [secret:access_token");
  expect(ran.written).not.toMatch(/canary/);
});

test("nor is one of those that were stored", async () => {
  const server = await protect({ callsPerToken: 3 });
  const tokens = { access_token: "canary-stored", refresh_token: server.refreshToken };
  const auth = { type: "stored", file: "tokens.json", clientId: "me" };
  const ran = await runWith(server, auth, {
    files: { "tokens.json": JSON.stringify(tokens) },
  });
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(server.issued).toHaveLength(2);
  expect(ran.written).not.toMatch(/canary/);
  expect(JSON.parse(await readFile(join(ran.folder, "tokens.json"), "utf8"))).toMatchObject({
    access_token: server.issued[1],
    refresh_token: server.refreshToken,
  });
});

test("a wrong secret is an error of the environment that says what to do", async () => {
  const server = await protect({});
  const ran = await runWith(server, {
    type: "client-credentials",
    clientId: "me",
    clientSecret: "canary-wrong",
  });
  expect(ran.code).toBe(3);
  expect(ran.stdout).toContain("server/unauthorized");
  expect(ran.stdout).toContain("refused a token: invalid_client");
  expect(ran.stdout).toContain("Check the client id and the client secret");
  expect(ran.written).not.toMatch(/canary/);
});

test("a secret is for the authorization server that the config names, and for no other", async () => {
  const server = await protect({});
  const auth = { type: "client-credentials", clientId: "me", clientSecret: server.clientSecret };
  const own = await runWith(server, auth);
  expect(own).toMatchObject({ code: 0, stderr: "" });
  const other = await runWith(server, { ...auth, issuer: "http://127.0.0.1:9" });
  expect(other.code).toBe(3);
  expect(other.stdout).toContain("not the expected http://127.0.0.1:9");
  expect(server.issued).toHaveLength(1);
});

test("nor is a secret, when nothing can start without the server", async () => {
  const server = await protect({});
  const auth = { type: "client-credentials", clientId: "me", clientSecret: "canary-wrong" };
  const ran = await runWith(server, auth, { required: true });
  expect(ran.code).not.toBe(0);
  expect(ran.written).toContain("refused a token: invalid_client");
  expect(ran.written).not.toMatch(/canary/);
});
