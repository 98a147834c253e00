import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunResult } from "../../src/core/report/result.ts";
import { type CliOutcome, folderOf, runCli } from "../support/cli.ts";
import { fixtureServer, trialOf } from "./support.ts";

/** The heart of each secret: it stands in every way of writing the secret and nowhere else. */
const hearts = { token: heart(), password: heart(), key: heart() } as const;

function heart(): string {
  return randomBytes(12).toString("hex");
}

const secrets = {
  token: `t+${hearts.token}/x`,
  password: `it's a "pass\\word" $HOME ${hearts.password}`,
  key: `k"e'y\\_${hearts.key}`,
} as const;
const shell = {
  API_TOKEN: secrets.token,
  SERVICE_CREDENTIALS: JSON.stringify({ user: "bob", keys: [{ key: secrets.key }] }),
};
const key = "{env.SERVICE_CREDENTIALS | json $.keys[0].key}";

const gossip = `#!/usr/bin/env node
const { DB_PASSWORD, OTHER } = process.env;
console.error(DB_PASSWORD, OTHER);
const checks = [{ name: "gossip " + OTHER, passed: false, message: DB_PASSWORD }];
console.log(JSON.stringify({ passed: false, reason: DB_PASSWORD, checks, outputs: { all: process.env } }));`;

/** A task that uses its secrets in every way that there is, and fails in all of them, so that they would be shown. */
function taskFor(address: string): object {
  const server = fixtureServer("--stderr={env.API_TOKEN} {env.DB_PASSWORD}");
  const wrong = { stdout: "other", stderr: "other" };
  return {
    apiVersion: "mcp-eval/v1",
    kind: "Task",
    metadata: { name: "gossip" },
    spec: {
      env: { DB_PASSWORD: secrets.password },
      prompt: `Log in with {env.API_TOKEN}, {env.DB_PASSWORD} and ${key}.`,
      solution: [
        { "own.echo": { args: { message: "{env.DB_PASSWORD}", token: "{env.API_TOKEN}" } } },
        { say: `I used {env.API_TOKEN}, {env.DB_PASSWORD} and ${key}.` },
      ],
      servers: {
        own: {
          command: server.command,
          args: server.args,
          env: { TOKEN: "{env.API_TOKEN}", PASS: "{env.DB_PASSWORD}", KEY: key },
        },
      },
      setup: [
        {
          command: {
            id: "reach",
            run: "printf '%s\\n' {env.API_TOKEN} {env.DB_PASSWORD | sh} | tee reached",
            outputs: { said: "{stdout}" },
          },
        },
        { command: { run: `printf %s "$KEY" >> reached`, env: { KEY: key } } },
      ],
      verify: [
        { command: { run: "echo {env.API_TOKEN}; echo {env.API_TOKEN} >&2; exit 1", expect: wrong } },
        {
          command: {
            run: "printf %s {env.DB_PASSWORD | sh}; printf %s {env.DB_PASSWORD | sh} >&2",
            expect: wrong,
          },
        },
        {
          command: {
            run: `cat; printf %s "$A" >&2`,
            stdin: "{env.DB_PASSWORD}",
            env: { A: key },
            expect: wrong,
          },
        },
        {
          command: {
            run: "printf %s {steps.reach.outputs.said | sh}",
            expect: { stdout: "{env.DB_PASSWORD}" },
          },
        },
        { command: { run: "test -d .", workdir: "{env.API_TOKEN}", continueOnError: true } },
        { script: { inline: gossip, protocol: "json" } },
        { script: { inline: `printf '%s %s' "$1" "$2"; exit 1`, args: ["{env.DB_PASSWORD}", key] } },
        { script: { inline: "printf %s {env.DB_PASSWORD | sh}; exit 1" } },
        {
          http: {
            url: `${address}/say?token={env.API_TOKEN}`,
            method: "POST",
            headers: { Authorization: "Bearer {env.API_TOKEN}", "X-Password": "{env.DB_PASSWORD}" },
            body: { json: { key, all: "{env.SERVICE_CREDENTIALS}" } },
            expect: { headers: { "x-told": "other" }, body: { equals: "other" } },
          },
        },
        { file: { path: "login", content: `password={env.DB_PASSWORD}\nkey=${key}\n` } },
        { file: { path: "login", expect: { equals: "other {env.API_TOKEN}" } } },
        {
          mcp: {
            server: "own",
            tool: "echo",
            args: { message: `{env.DB_PASSWORD} ${key}` },
            expect: { text: "other" },
          },
        },
        {
          mcp: {
            server: "own",
            tool: "env",
            args: {},
            expect: { json: [{ path: "$.PASS", equals: "other" }] },
          },
        },
        {
          foreach: {
            var: "each",
            in: ["{env.API_TOKEN}"],
            steps: [{ command: { run: "echo {each}; exit 1" } }],
          },
        },
        { not: [{ command: { run: "test -n {env.API_TOKEN}" } }] },
        { anyOf: [{ command: { run: "printf %s {env.DB_PASSWORD | sh}; exit 1" } }] },
        { command: { run: "printf %s {agent.output | sh}", expect: { stdout: "other" } } },
      ],
      cleanup: [{ command: { run: "cat reached login; exit 1" } }],
    },
  };
}

interface Told {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

describe("the secrets of a task", () => {
  let folder: ReturnType<typeof folderOf>;
  let run: CliOutcome;
  const shown: CliOutcome[] = [];
  const told: Told[] = [];
  // Says all that it was told, in a header too.
  const http = createServer((request, response) => {
    void answer(request, response);
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = "", headers } = request;
    const body = await text(request);
    told.push({ url, headers, body });
    response.setHeader("x-told", JSON.stringify(headers));
    response.end(JSON.stringify({ url, headers, body }));
  }

  beforeAll(async () => {
    await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
    const address = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    folder = folderOf({ "task.json": taskFor(address) });
    const options = { cwd: folder.path, env: shell };
    const play = ["run", "task.json", "--agent", "oracle"];
    const reporters = ["-r", "json", "-r", "junit=out/junit.xml", "-r", "console=out/console.txt"];
    run = await runCli([...play, "-o", "out", ...reporters], options);
    const commands = [
      ["show", "-o", "out", "-r", "console"],
      ["show", "-o", "out", "--trial", "t1"],
      ["show", "-o", "out", "--trial", "t1", "--json"],
      ["list", "task.json", "--json"],
      ["validate", "task.json", "--json"],
    ];
    for (const args of commands) shown.push(await runCli(args, options));
  });
  afterAll(() => {
    folder[Symbol.dispose]();
    http.close();
  });

  it("do reach what they are for", () => {
    expect(readFileSync(join(folder.path, "reached"), "utf8")).toBe(
      `${secrets.token}\n${secrets.password}\n${secrets.key}`,
    );
    expect(readFileSync(join(folder.path, "login"), "utf8")).toBe(
      `password=${secrets.password}\nkey=${secrets.key}\n`,
    );
    expect(told).toEqual([
      {
        url: `/say?token=${secrets.token}`,
        headers: expect.objectContaining({
          authorization: `Bearer ${secrets.token}`,
          "x-password": secrets.password,
        }) as unknown,
        body: JSON.stringify({ key: secrets.key, all: shell.SERVICE_CREDENTIALS }),
      },
    ]);
  });

  it("stand in every step, in which something is wrong, so that there was something to hide", () => {
    expect([run.code, run.stderr]).toEqual([1, ""]);
    const trial = trialOf(JSON.parse(run.stdout) as RunResult, "gossip");
    expect(trial.error).toBeUndefined();
    const journal = filesIn(join(folder.path, "out")).find(({ name }) => name === "journal.jsonl");
    for (const mark of ["API_TOKEN", "DB_PASSWORD", "SERVICE_CREDENTIALS"]) {
      expect(journal?.content.split(`[secret:${mark}`).length).toBeGreaterThan(5);
    }
    expect(shown.map(({ code, stdout }) => [code, stdout === ""])).toEqual([
      [1, false], // A run that failed is shown with its own exit code.
      ...shown.slice(1).map(() => [0, false]),
    ]);
  });

  it.each(Object.entries(hearts))("are in no output of a command: the %s", (_, secret) => {
    for (const { stdout, stderr } of [run, ...shown]) {
      expect(around(stdout, secret)).toBeUndefined();
      expect(around(stderr, secret)).toBeUndefined();
    }
  });

  it.each(Object.entries(hearts))("are in no byte of the run folder or of a report: the %s", (_, secret) => {
    const files = filesIn(join(folder.path, "out"));
    const expected = ["run.json", "plan.json", "journal.jsonl", "result.json", "junit.xml", "console.txt"];
    expect(files.map(({ name }) => name)).toEqual(expect.arrayContaining(expected));
    for (const { name, content } of files) expect([name, around(content, secret)]).toEqual([name, undefined]);
  });
});

function filesIn(folder: string): { readonly name: string; readonly content: string }[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name, parentPath }) => ({ name, content: readFileSync(join(parentPath, name), "latin1") }));
}

/** Where a text stands in another one, to be read by who has to mend it. */
function around(content: string, searched: string): string | undefined {
  const at = content.indexOf(searched);
  return at === -1 ? undefined : content.slice(Math.max(0, at - 200), at + 100);
}
