import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import type { RunResult } from "../../src/core/report/result.ts";
import { answer, type HttpFixture, startHttpFixture } from "../fixtures/servers/http-server.ts";
import { type CliOutcome, folderOf, runCli } from "../support/cli.ts";
import { type FakeProvider, startFakeProvider } from "../support/fake-provider.ts";
import { fixtureServer, trialOf } from "./support.ts";

const fresh = (prefix = ""): string => `${prefix}${randomBytes(12).toString("hex")}`;

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

/** What stands for a secret on its way into a URL or into JSON. */
const writtenForms = Object.values(secrets).flatMap((secret) => [
  secret,
  encodeURIComponent(secret),
  JSON.stringify(secret).slice(1, -1),
  JSON.stringify(JSON.stringify(secret)).slice(3, -3),
  Buffer.from(secret).toString("latin1"),
]);

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
  let run: CliOutcome;
  const shown: CliOutcome[] = [];

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
    const files = ["-r", "json", "-r", "junit=out/junit.xml", "-r", "console=out/console.txt"];
    const options = { cwd: folder.path, env };
    run = await runCli(["run", "config.json", "-o", "out", "-j", "4", ...given, ...files], options);
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
    // Few at a time: each is a process.
    for (let index = 0; index < commands.length; index += 3) {
      shown.push(
        ...(await Promise.all(commands.slice(index, index + 3).map((args) => runCli(args, options)))),
      );
    }
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
    for (const name of ["processEnvironment", "commandLine"] as const) expect(told).toContain(secrets[name]);
  });

  it("stand in everything that went wrong, so that there was something to hide", () => {
    const { result } = { result: JSON.parse(run.stdout) as RunResult };
    expect(run).toMatchObject({ code: 1, stderr: "" });
    expect(result.summary).toEqual({ total: 8, pass: 0, fail: 5, error: 3, timeout: 0, skip: 0 });
    expect(trialOf(result, "suite/crash").error).toMatchObject({
      code: "server/exited",
      detail: expect.stringContaining("openaiKey is [secret:openaiKey]") as string,
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

  it("are in no output of any command", () => {
    for (const { stdout, stderr } of [run, ...shown]) {
      for (const secret of writtenForms) {
        expect(stdout).not.toContain(secret);
        expect(stderr).not.toContain(secret);
      }
    }
  });

  it("are in no byte of the run folder or of a report", () => {
    const files = readdirSync(join(folder.path, "out"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    const names = files.map((file) => file.replace(/^.*\//, ""));
    for (const name of [
      "run.json",
      "plan.json",
      "journal.jsonl",
      "result.json",
      "junit.xml",
      "console.txt",
    ]) {
      expect(names).toContain(name);
    }
    for (const file of files) {
      const bytes = readFileSync(file);
      for (const secret of writtenForms)
        expect([file, secret, bytes.includes(secret)]).toEqual([file, secret, false]);
    }
  });

  it("are masked in the lines that an error shows", async () => {
    using broken = folderOf({
      "mcp-eval.config.json": { ...configOf(http, provider), openaiKeys: 1, timout: 3 },
      "typo.yaml": `server:\n  transport: shttp\n  url: http://127.0.0.1:1/?token=${secrets.urlToken}\n  headrs:\n    Authorization: Bearer ${secrets.bearer}\nopenaiKey: ${secrets.openaiKey}\nworkflow: []\n`,
      "syntax.yaml": `openaiKey: ${secrets.openaiKey}\nserver: {transport: stdio\nworkflows: []\n`,
      "throws.ts": `const openaiKey = "${secrets.openaiKey}";\nconst = ;\nexport default {};\n`,
    });
    const env = { SHELL_TOKEN: secrets.processEnvironment, GIVEN_PASSWORD: secrets.commandLine };
    const outcomes = await Promise.all(
      [[], ["typo.yaml"], ["syntax.yaml"], ["throws.ts"]].map((args) =>
        runCli(["run", ...args], { cwd: broken.path, env }),
      ),
    );
    for (const { code, stdout, stderr } of outcomes) {
      expect([code, stdout]).toEqual([2, ""]);
      for (const secret of writtenForms) expect(stderr).not.toContain(secret);
    }
  });
});
