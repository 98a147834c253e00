import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { RunResult } from "../../src/model/result.ts";
import { answer, type HttpFixture, startHttpFixture } from "../fixtures/servers/http-server.ts";
import { folderOf, type HereOutcome, runCli, runHere } from "../support/cli.ts";
import { type FakeProvider, startFakeProvider } from "../support/fake-provider.ts";
import { fixtureServer, trialOf } from "./support.ts";

const fresh = (prefix = ""): string => `${prefix}${randomBytes(12).toString("hex")}`;

/** What stands for a secret on its way into a URL or into JSON. */
const formsOf = (secret: string): readonly string[] => [
  secret,
  encodeURIComponent(secret),
  JSON.stringify(secret).slice(1, -1),
  JSON.stringify(JSON.stringify(secret)).slice(3, -3),
  Buffer.from(secret).toString("latin1"),
];

/** Fails for the first text that has a secret, with what stands around it. */
function expectHidden(texts: Readonly<Record<string, string>>, secrets: readonly string[]): void {
  for (const [name, content] of Object.entries(texts))
    for (const secret of secrets.flatMap(formsOf)) {
      const at = content.indexOf(secret);
      const around = at === -1 ? undefined : content.slice(Math.max(0, at - 200), at + 100);
      expect([name, around]).toEqual([name, undefined]);
    }
}

const outputs = (outcomes: readonly HereOutcome[]): Record<string, string> =>
  Object.fromEntries(
    outcomes.flatMap(({ stdout, stderr }, index) => [
      [`stdout ${index}`, stdout],
      [`stderr ${index}`, stderr],
    ]),
  );

/** The content of every file of a run folder and its reports, by name. */
function filesIn(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const found = Object.fromEntries(
    files.map(({ name, parentPath }) => [name, readFileSync(join(parentPath, name), "latin1")]),
  );
  const expected = ["run.json", "plan.json", "journal.jsonl", "result.json", "junit.xml", "console.txt"];
  expect(Object.keys(found)).toEqual(expect.arrayContaining(expected));
  return found;
}

const reporters = ["-o", "out", "-r", "json", "-r", "junit=out/junit.xml", "-r", "console=out/console.txt"];

/** By the way in which each is given. Some are hard to recognise once written as JSON or in a URL. */
const secrets = {
  processEnvironment: fresh("env-"),
  commandLine: fresh("flag "),
  literalEnv: `quo"te\\back/slash ${fresh()} ü`,
  serverArgument: fresh("arg-"),
  bearer: fresh(),
  header: `a+b&c=${fresh()}`,
  urlToken: fresh("url-"),
  openaiKey: fresh("openai-"),
  apiKey: fresh("own-"),
  anthropicKey: fresh("sk-ant-"),
} as const;

const spill = Object.entries(secrets)
  .map(([name, secret]) => `${name} is ${secret}`)
  .join(", ");

function configOf(http: HttpFixture, provider: FakeProvider): Config {
  return {
    servers: {
      local: {
        ...fixtureServer(`--token=${secrets.serverArgument}`, "--stderr=starting"),
        env: { FROM_SHELL: "${SHELL_TOKEN}", GIVEN: "${GIVEN_PASSWORD}", DB_PASSWORD: secrets.literalEnv },
      },
      remote: {
        transport: "shttp",
        url: `${http.url}?token=${secrets.urlToken}&page=1`,
        headers: { Authorization: `Bearer ${secrets.bearer}`, "X-Team": secrets.header },
      },
    },
    agents: {
      claude: "anthropic/claude-sonnet-4-5",
      own: { model: "own-model", baseURL: `${provider.url}/v1`, apiKey: secrets.apiKey },
    },
    llmJudge: true,
    openaiKey: secrets.openaiKey,
    workflows: [
      { name: "tell", steps: [{ user: "Tell me.", expectedState: "not what it says" }], servers: ["local"] },
      { name: "refused", steps: [{ user: "Be refused." }], servers: ["local"] },
    ],
    toolHealthSuites: [
      {
        name: "suite",
        tests: [
          { name: "env", server: "local", expectedResult: "no such text" },
          { name: "echo", server: "remote", args: { message: spill }, expectedError: "no such error" },
          { name: "crash", server: "local", args: { code: 3, stderr: spill } },
          { name: spill, server: "local", args: { [spill]: spill }, description: "unknown tool" },
        ],
      },
    ],
  };
}

/** Tells everything that it was sent. */
function startTellTale(): Promise<HttpFixture> {
  return startHttpFixture(({ request, response, message }) => {
    if (message.method !== "tools/call") return false;
    const told = JSON.stringify({ url: request.url, headers: request.headers, message });
    answer(response, { ...message, params: { arguments: { message: told } } });
    return true;
  });
}

function startGossip(): Promise<FakeProvider> {
  return startFakeProvider(({ model, users, newResults, headers }) => {
    const said = `${spill}; I was sent ${JSON.stringify(headers)}`;
    if (model === "gpt-4o") return { text: JSON.stringify({ score: 0.1, reason: said }) };
    if (users.includes("Be refused.")) return { status: 401, message: `bad key: ${said}` };
    return newResults.length > 0 ? { text: said } : { tool: "env", args: { told: spill }, text: said };
  });
}

describe("secrets", () => {
  let folder: ReturnType<typeof folderOf>;
  let http: HttpFixture;
  let provider: FakeProvider;
  let run: HereOutcome;
  const shown: HereOutcome[] = [];

  beforeAll(async () => {
    http = await startTellTale();
    provider = await startGossip();
    folder = folderOf({ "config.json": configOf(http, provider) });
    const env = {
      SHELL_TOKEN: secrets.processEnvironment,
      ANTHROPIC_BASE_URL: provider.url,
      ANTHROPIC_API_KEY: secrets.anthropicKey,
      OPENAI_BASE_URL: provider.url,
    };
    const given = ["--env", `GIVEN_PASSWORD=${secrets.commandLine}`];
    const options = { cwd: folder.path, env };
    run = await runHere(["run", "config.json", "-j", "4", ...given, ...reporters], options);
    const trials = (JSON.parse(run.stdout) as RunResult).trials;
    const commands = [
      ["list", "config.json", ...given],
      ["list", "config.json", "--json", ...given],
      ["validate", "config.json", "--json", ...given],
      ["show", "-o", "out", "-r", "console"],
      ["show", "-o", "out", "-r", "json"],
      ["show", "-o", "out", "-r", "junit"],
      ...trials.map(({ id }) => ["show", "-o", "out", "--trial", id]),
      ["show", "-o", "out", "--trial", "t1", "--json"],
      ["run", "config.json", "-r", "json", "-r", "console", ...given],
      ["run", "config.json", "--task", "no such", ...given],
    ];
    for (const args of commands) shown.push(await runHere(args, options));
  });
  afterAll(async () => {
    folder[Symbol.dispose]();
    await http.close();
    await provider.close();
  });

  it("do reach the servers and models that they are for", () => {
    const requests = Object.fromEntries(
      provider.requests.map(({ model, headers }) => [model, headers["x-api-key"] ?? headers.authorization]),
    );
    expect(requests).toEqual({
      "claude-sonnet-4-5": secrets.anthropicKey,
      "own-model": `Bearer ${secrets.apiKey}`,
      "gpt-4o": `Bearer ${secrets.openaiKey}`,
    });
    expect(http.requests).toContain(`POST /mcp?token=${secrets.urlToken}&page=1`);
    expect(http.headers()).toMatchObject({
      authorization: `Bearer ${secrets.bearer}`,
      "x-team": secrets.header,
    });
    // The model is told what the tool answered, and the tool answered its environment.
    const told = provider.requests.flatMap(({ newResults }) => newResults.map(({ text }) => text)).join();
    expect(told).toContain(secrets.processEnvironment);
    expect(told).toContain(secrets.commandLine);
  });

  it("stand in everything that went wrong, so that there was something to hide", () => {
    const result = JSON.parse(run.stdout) as RunResult;
    expect(run).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^note: never seen to fail .*\n$/) as string,
    });
    expect(result.summary).toEqual({ total: 8, pass: 0, fail: 6, error: 2, timeout: 0, skip: 0 });
    expect(trialOf(result, "suite/crash").grades[0]).toMatchObject({
      verdict: "fail",
      reason: expect.stringContaining("openaiKey is [secret:openaiKey]") as string,
    });
    const judged = result.trials.find(({ task, agent }) => task === "tell" && agent === "own");
    expect(judged?.grades.find(({ grader }) => grader === "llm-judge")).toMatchObject({
      verdict: "fail",
      score: 0.1,
      reason: expect.stringContaining("apiKey is [secret:apiKey]") as string,
    });
    for (const { code, stdout } of shown.slice(0, -2)) {
      // A run that failed is shown with its own exit code.
      expect([0, 1]).toContain(code);
      expect(stdout).not.toBe("");
    }
    for (const { code, stderr } of shown.slice(-2)) expect([code, stderr === ""]).toEqual([2, false]);
  });

  it("are in no output of any command, and in no byte of the run folder or of a report", () => {
    expectHidden(outputs([run, ...shown]), Object.values(secrets));
    expectHidden(filesIn(join(folder.path, "out")), Object.values(secrets));
  });

  it("are masked in the lines that an error shows", async () => {
    using broken = folderOf({
      "mcp-eval.config.json": { ...configOf(http, provider), openaiKeys: 1, timout: 3 },
      "typo.yaml": `server:\n  transport: shttp\n  url: http://127.0.0.1:1/?token=${secrets.urlToken}\n  headrs:\n    Authorization: Bearer ${secrets.bearer}\nopenaiKey: ${secrets.openaiKey}\nworkflow: []\n`,
      "syntax.yaml": `openaiKey: ${secrets.openaiKey}\nserver: {transport: stdio\nworkflows: []\n`,
      "throws.ts": `const openaiKey = "${secrets.openaiKey}";\nconst = ;\nexport default {};\n`,
    });
    const env = { SHELL_TOKEN: secrets.processEnvironment, GIVEN_PASSWORD: secrets.commandLine };
    for (const file of ["mcp-eval.config.json", "typo.yaml", "syntax.yaml", "throws.ts"]) {
      // Here an import would go vitest's way.
      const outcome = await runCli(["run", file], { cwd: broken.path, env });
      expect([file, outcome.code, outcome.stdout]).toEqual([file, 2, ""]);
      expectHidden(outputs([outcome]), Object.values(secrets));
    }
  });
});

/** The heart of each secret: it stands in every way of writing the secret and nowhere else. */
const hearts = { token: fresh(), password: fresh(), key: fresh() } as const;

const taskSecrets = {
  token: `t+${hearts.token}/x`,
  password: `it's a "pass\\word" $HOME ${hearts.password}`,
  key: `k"e'y\\_${hearts.key}`,
} as const;
const shell = {
  API_TOKEN: taskSecrets.token,
  SERVICE_CREDENTIALS: JSON.stringify({ user: "bob", keys: [{ key: taskSecrets.key }] }),
};
const key = "{env.SERVICE_CREDENTIALS | json $.keys[0].key}";

const leaky = `#!/usr/bin/env node
const { DB_PASSWORD, OTHER } = process.env;
console.error(DB_PASSWORD, OTHER);
const checks = [{ name: "gossip " + OTHER, passed: false, message: DB_PASSWORD }];
console.log(JSON.stringify({ passed: false, reason: DB_PASSWORD, checks, outputs: { all: process.env } }));`;

const command = (run: string, rest: object = {}): object => ({ command: { run, ...rest } });
const script = (inline: string, rest: object = {}): object => ({ script: { inline, ...rest } });
const call = (tool: string, args: object, expect: object): object => ({
  mcp: { server: "own", tool, args, expect },
});

/** A task that uses its secrets in every way that there is, and fails in all of them, so that they would be shown. */
function taskFor(address: string): object {
  const { command: program, args } = fixtureServer("--stderr={env.API_TOKEN} {env.DB_PASSWORD}");
  const env = { TOKEN: "{env.API_TOKEN}", PASS: "{env.DB_PASSWORD}", KEY: key };
  const expect = { stdout: "other", stderr: "other" };
  const password = "{env.DB_PASSWORD | sh}";
  const told = `Log in with {env.API_TOKEN}, {env.DB_PASSWORD} and ${key}.`;
  const http = {
    url: `${address}/say?token={env.API_TOKEN}`,
    method: "POST",
    headers: { Authorization: "Bearer {env.API_TOKEN}", "X-Password": "{env.DB_PASSWORD}" },
    body: { json: { key, all: "{env.SERVICE_CREDENTIALS}" } },
    expect: { headers: { "x-told": "other" }, body: { equals: "other" } },
  };
  const spec = {
    env: { DB_PASSWORD: taskSecrets.password },
    prompt: told,
    solution: [
      { "own.echo": { args: { message: "{env.DB_PASSWORD}", token: "{env.API_TOKEN}" } } },
      { say: told },
    ],
    servers: { own: { command: program, args, env } },
    setup: [
      command(`printf '%s\\n' {env.API_TOKEN} ${password} | tee reached`, {
        id: "reach",
        outputs: { said: "{stdout}" },
      }),
      command(`printf %s "$KEY" >> reached`, { env: { KEY: key } }),
    ],
    verify: [
      command("echo {env.API_TOKEN}; echo {env.API_TOKEN} >&2; exit 1", { expect }),
      command(`printf %s ${password}; printf %s ${password} >&2`, { expect }),
      command(`cat; printf %s "$A" >&2`, { stdin: "{env.DB_PASSWORD}", env: { A: key }, expect }),
      command("printf %s {steps.reach.outputs.said | sh}", { expect: { stdout: "{env.DB_PASSWORD}" } }),
      command("test -d .", { workdir: "{env.API_TOKEN}", continueOnError: true }),
      script(leaky, { protocol: "json" }),
      script(`printf '%s %s' "$1" "$2"; exit 1`, { args: ["{env.DB_PASSWORD}", key] }),
      script(`printf %s ${password}; exit 1`),
      { http },
      { file: { path: "login", content: `password={env.DB_PASSWORD}\nkey=${key}\n` } },
      { file: { path: "login", expect: { equals: "other {env.API_TOKEN}" } } },
      call("echo", { message: `{env.DB_PASSWORD} ${key}` }, { text: "other" }),
      call("env", {}, { json: [{ path: "$.PASS", equals: "other" }] }),
      { foreach: { var: "each", in: ["{env.API_TOKEN}"], steps: [command("echo {each}; exit 1")] } },
      { not: [command("test -n {env.API_TOKEN}")] },
      { anyOf: [command(`printf %s ${password}; exit 1`)] },
      command("printf %s {agent.output | sh}", { expect: { stdout: "other" } }),
    ],
    cleanup: [command("cat reached login; exit 1")],
  };
  return { apiVersion: "mcp-eval/v1", kind: "Task", metadata: { name: "gossip" }, spec };
}

describe("the secrets of a task", () => {
  let folder: ReturnType<typeof folderOf>;
  let run: HereOutcome;
  const shown: HereOutcome[] = [];
  const told: { url: string; headers: IncomingHttpHeaders; body: string }[] = [];
  // Says all that it was told, in a header too.
  const http = createServer((request, response) => {
    const { url = "", headers } = request;
    void text(request).then((body) => {
      told.push({ url, headers, body });
      response.setHeader("x-told", JSON.stringify(headers));
      return response.end(JSON.stringify({ url, headers, body }));
    });
  });

  beforeAll(async () => {
    await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
    const address = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    folder = folderOf({ "task.json": taskFor(address) });
    const options = { cwd: folder.path, env: shell };
    run = await runHere(["run", "task.json", "--agent", "oracle", ...reporters], options);
    const commands = [
      ["show", "-o", "out", "-r", "console"],
      ["show", "-o", "out", "--trial", "t1"],
      ["show", "-o", "out", "--trial", "t1", "--json"],
      ["list", "task.json", "--json"],
      ["validate", "task.json", "--json"],
    ];
    for (const args of commands) shown.push(await runHere(args, options));
  });
  afterAll(() => {
    folder[Symbol.dispose]();
    http.close();
  });

  it("do reach what they are for", () => {
    expect(readFileSync(join(folder.path, "reached"), "utf8")).toBe(
      `${taskSecrets.token}\n${taskSecrets.password}\n${taskSecrets.key}`,
    );
    expect(readFileSync(join(folder.path, "login"), "utf8")).toBe(
      `password=${taskSecrets.password}\nkey=${taskSecrets.key}\n`,
    );
    expect(told).toEqual([
      {
        url: `/say?token=${taskSecrets.token}`,
        headers: expect.objectContaining({
          authorization: `Bearer ${taskSecrets.token}`,
          "x-password": taskSecrets.password,
        }) as unknown,
        body: JSON.stringify({ key: taskSecrets.key, all: shell.SERVICE_CREDENTIALS }),
      },
    ]);
  });

  it("stand in every step, in which something is wrong, so that there was something to hide", () => {
    expect([run.code, run.stderr]).toEqual([1, ""]);
    const trial = trialOf(JSON.parse(run.stdout) as RunResult, "gossip");
    expect(trial.error).toBeUndefined();
    const { "journal.jsonl": journal } = filesIn(join(folder.path, "out"));
    for (const mark of ["API_TOKEN", "DB_PASSWORD", "SERVICE_CREDENTIALS"]) {
      expect(journal?.split(`[secret:${mark}`).length).toBeGreaterThan(5);
    }
    expect(shown.map(({ code, stdout }) => [code, stdout === ""])).toEqual([
      [1, false], // A run that failed is shown with its own exit code.
      ...shown.slice(1).map(() => [0, false]),
    ]);
  });

  it("are in no output of a command, and in no byte of the run folder or of a report", () => {
    expectHidden(outputs([run, ...shown]), Object.values(hearts));
    expectHidden(filesIn(join(folder.path, "out")), Object.values(hearts));
  });
});
