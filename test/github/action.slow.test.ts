import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { createProgram } from "../../src/cli/program.ts";
import { toolTest } from "../e2e/support.ts";
import { folderOf, root, runShell, type ShellOutcome } from "../support/cli.ts";
import { startHttp } from "../support/http.ts";

interface Action {
  readonly inputs: Readonly<Record<string, { readonly default?: string }>>;
  readonly outputs: Readonly<Record<string, { readonly value: string }>>;
  readonly runs: {
    readonly using: string;
    readonly steps: readonly {
      readonly run?: string;
      readonly uses?: string;
      readonly env?: Readonly<Record<string, string>>;
    }[];
  };
}

const fixture = join(root, "test/fixtures/servers/fixture-server.mjs");
const action = parse(readFileSync(join(root, "action.yml"), "utf8")) as Action;

/** Runs a script of the action as GitHub runs its step: by its line, with the variables that GitHub sets. */
function runStep(script: string, cwd: string, env: Readonly<Record<string, string>>): Promise<ShellOutcome> {
  const step = action.runs.steps.find(({ run }) => run?.includes(script));
  return runShell(step?.run ?? "no such step", {
    cwd,
    env: { GITHUB_ACTION_PATH: root, GITHUB_ACTIONS: "true", ...env },
  });
}

it("the action names only inputs and outputs that it has, and scripts that there are", () => {
  const text = readFileSync(join(root, "action.yml"), "utf8");
  const used = [...text.matchAll(/\binputs\.([\w-]+)/g)].map(([, name]) => name);
  expect([...new Set(used)].toSorted()).toEqual(Object.keys(action.inputs).toSorted());
  const scripts = [...text.matchAll(/\$GITHUB_ACTION_PATH\/([^"]+)/g)].map(([, path = ""]) => path);
  expect(scripts.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  expect(scripts).toHaveLength(2);
  const written = readFileSync(join(root, "action/run.mjs"), "utf8");
  for (const { value } of Object.values(action.outputs))
    expect(written).toContain(`${/outputs\.(\w+)/.exec(value)?.[1]}=`);
});

describe("the step that runs mcpvals", () => {
  const tests = toolTest("echo", { args: { message: "hi" }, expectedResult: "hi" });
  const broken = toolTest("echo", { args: { message: "hi" }, expectedResult: "ho" });
  const project = folderOf({ "good.json": tests, "bad.json": broken });
  const cwd = project.path;

  beforeAll(() => {
    mkdirSync(join(cwd, "node_modules"));
    symlinkSync(root, join(cwd, "node_modules/mcpvals"));
  });
  afterAll(() => project[Symbol.dispose]());

  it.each([
    ["run --config good.json", 0, "pass"],
    ["run --config bad.json", 1, "fail"],
    [`check -- node '${fixture}'`, 1, "fail"],
  ])("%s ends with its exit code, annotations, a summary and the report", async (args, code, verdict) => {
    using files = folderOf({});
    const env = {
      MCPVALS_ARGS: args,
      RUNNER_TEMP: files.path,
      GITHUB_OUTPUT: join(files.path, "output.txt"),
      GITHUB_STEP_SUMMARY: join(files.path, "summary.md"),
    };
    const ran = await runStep("run.mjs", cwd, env);
    expect([ran.code, ran.stdout], ran.stderr).toEqual([
      code,
      expect.stringMatching(new RegExp(`^::${code === 0 ? "notice" : "error"} title=mcpvals::`, "m")),
    ]);
    const [, said, folder = ""] =
      /^verdict=(.*)\nfolder=(.*)\n$/.exec(readFileSync(env.GITHUB_OUTPUT, "utf8")) ?? [];
    expect(said).toBe(verdict);
    const report = readFileSync(join(folder, "report.md"), "utf8");
    expect(readFileSync(env.GITHUB_STEP_SUMMARY, "utf8")).toBe(report);
    expect(readFileSync(join(folder, "report.html"), "utf8")).toMatch(/^<!doctype html>/i);
    expect(JSON.parse(readFileSync(join(folder, "result.json"), "utf8"))).toMatchObject({ verdict });
  });

  it.each([
    ["run --config nothing.json", 2],
    ["check -- node nothing.js", 3],
  ])("%s has no outputs, so that no artifact and no comment are made of it", async (args, code) => {
    const env = {
      MCPVALS_ARGS: args,
      RUNNER_TEMP: cwd,
      GITHUB_OUTPUT: join(cwd, "none.txt"),
    };
    const ran = await runStep("run.mjs", cwd, env);
    expect([ran.code, existsSync(env.GITHUB_OUTPUT)]).toEqual([code, false]);
    expect(ran.stdout).toContain("::error title=mcpvals::there is no result");
  });

  it("installs its own version where the project has none, and says why it could not", async () => {
    using elsewhere = folderOf({ "good.json": tests });
    const env = {
      MCPVALS_ARGS: "run",
      RUNNER_TEMP: elsewhere.path,
      GITHUB_OUTPUT: join(elsewhere.path, "output.txt"),
    };
    const ran = await runStep("run.mjs", elsewhere.path, env);
    expect([ran.code, ran.stdout]).toEqual([
      3,
      expect.stringMatching(
        /installing mcpvals@[\d.]+, since(?:.|\n)*::error title=mcpvals::mcpvals@.* could not be installed/,
      ),
    ]);
  });
});

describe("args of the action", () => {
  const project = folderOf({
    "node_modules/mcpvals/package.json": { name: "mcpvals", version: "0.0.0" },
    "node_modules/mcpvals/dist/main.js": "console.log(JSON.stringify(process.argv.slice(2)))",
  });
  afterAll(() => project[Symbol.dispose]());

  /** What mcpvals gets, without the reporters. */
  async function given(
    args: string,
  ): Promise<{ words: readonly string[]; reporters: number } & ShellOutcome> {
    const env = { MCPVALS_ARGS: args, RUNNER_TEMP: project.path, GITHUB_OUTPUT: "/dev/null", WORD: "a b" };
    const ran = await runStep("run.mjs", project.path, env);
    const [line = ""] = ran.stdout.split("\n");
    const words = line.startsWith("[") ? (JSON.parse(line) as string[]) : [];
    const kept = words.filter((word, at) => word !== "--reporter" && words[at - 1] !== "--reporter");
    return { ...ran, words: kept, reporters: (words.length - kept.length) / 2 };
  }

  it.each<[args: string, words: readonly string[]]>([
    ['run --task "su -- ms"', ["run", "--task", "su -- ms"]],
    [
      "check --calls -- node 'my server.js' -- x",
      ["check", "--calls", "--", "node", "my server.js", "--", "x"],
    ],
    ['run\n  --task "$WORD"\n  # only these\n  --trials 2\n', ["run", "--task", "a b", "--trials", "2"]],
  ])("are split as bash does: %s", async (args, words) => {
    expect(await given(args)).toMatchObject({ words, reporters: 5, code: 0 });
  });

  it("get no reporters where the command has none, and must be words", async () => {
    for (const args of ["list", "validate --run"])
      expect(await given(args)).toMatchObject({
        words: args.split(" "),
        reporters: 0,
        code: 0,
        stdout: expect.not.stringContaining("::error") as string,
      });
    for (const args of ['run "', "run && echo done", "run | cat"])
      expect(await given(args)).toMatchObject({
        words: [],
        code: 2,
        stdout: expect.stringContaining("::error title=mcpvals::the input args") as string,
      });
  });

  it("are known: all commands that have reporters", async () => {
    const { commands } = await createProgram(() => undefined);
    const reporting = commands.filter(({ options }) => options.some(({ long }) => long === "--reporter"));
    const names = reporting.flatMap((command) => [command.name(), ...command.aliases()]);
    const [, listed = ""] =
      /hasResult = (\[.*?\])/.exec(readFileSync(join(root, "action/run.mjs"), "utf8")) ?? [];
    expect((JSON.parse(listed) as string[]).toSorted()).toEqual(names.toSorted());
  });
});

describe("the step that comments", () => {
  interface Comment {
    readonly url: string;
    readonly html_url: string;
    readonly user: { readonly type: string };
    body: string;
  }

  /** The part of GitHub's API that has the comments of pull request 7. */
  async function startGitHub(comments: Comment[], status = 200): Promise<string> {
    const url: string = await startHttp((request, response) => {
      void (async () => {
        const { pathname, searchParams } = new URL(request.url ?? "", "http://localhost");
        const send = (code: number, body: unknown): void => {
          response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
        };
        if (status !== 200) return send(status, { message: "Resource not accessible by integration" });
        if (request.headers.authorization !== "Bearer t0ken") return send(401, {});
        if (request.method === "GET") {
          const from = (Number(searchParams.get("page")) - 1) * 100;
          return send(200, comments.slice(from, from + 100));
        }
        const { body } = (await json(request)) as { readonly body: string };
        const known = comments.find((comment) => new URL(comment.url).pathname === pathname);
        if (known !== undefined) known.body = body;
        else if (pathname === "/repos/me/server/issues/7/comments")
          comments.push({
            url: `${url}/repos/me/server/issues/comments/9`,
            html_url: "https://pull/7#9",
            user: { type: "Bot" },
            body,
          });
        else return send(404, {});
        send(known === undefined ? 201 : 200, known ?? comments.at(-1));
      })();
    });
    return url;
  }

  async function comment(
    api: string,
    {
      report = "# PASS\n",
      event = { pull_request: { number: 7 } },
    }: { report?: string; event?: object } = {},
  ): Promise<ShellOutcome> {
    using folder = folderOf({ "report.md": report, "event.json": event });
    return await runStep("comment.mjs", folder.path, {
      MCPVALS_REPORT: join(folder.path, "report.md"),
      MCPVALS_NAME: "evals",
      GITHUB_TOKEN: "t0ken",
      GITHUB_EVENT_PATH: join(folder.path, "event.json"),
      GITHUB_API_URL: api,
      GITHUB_SERVER_URL: "https://github.example",
      GITHUB_REPOSITORY: "me/server",
      GITHUB_RUN_ID: "42",
    });
  }

  it("writes one comment, and edits it from then on", async () => {
    const comments: Comment[] = Array.from({ length: 100 }, (_, index) => ({
      url: `http://localhost/${index}`,
      html_url: "",
      // Somebody else may have written the mark.
      user: { type: "User" },
      body: index === 0 ? "<!-- mcpvals: evals -->\nall is well" : "looks good",
    }));
    const api = await startGitHub(comments);
    expect(await comment(api)).toMatchObject({ code: 0, stdout: "commented: https://pull/7#9\n" });
    const link = "[Log and report](https://github.example/me/server/actions/runs/42)";
    expect(comments.at(-1)?.body).toBe(`<!-- mcpvals: evals -->\n# PASS\n\n${link}\n`);
    const again = await comment(api, { report: "# FAIL\n" });
    expect(again).toMatchObject({ code: 0, stdout: "replaced the comment: https://pull/7#9\n" });
    expect(comments).toHaveLength(101);
    expect(comments.at(-1)?.body).toBe(`<!-- mcpvals: evals -->\n# FAIL\n\n${link}\n`);
  });

  it("cuts what GitHub would refuse, and says so", async () => {
    const comments: Comment[] = [];
    await comment(await startGitHub(comments), { report: "a line of the report\n".repeat(5000) });
    const [{ body } = { body: "" }] = comments;
    expect(body.length).toBeLessThan(65_536);
    expect(body).toMatch(/\na line of the report\n\n… more is in the report\.\n\n\[Log/);
  });

  it("does not fail where it may not comment, and does nothing without a pull request", async () => {
    const forked = await comment(await startGitHub([], 403));
    expect([forked.code, forked.stdout]).toEqual([0, expect.stringContaining("pull-requests: write")]);
    const pushed = await comment("http://127.0.0.1:1", { event: {} });
    expect(pushed).toMatchObject({ code: 0, stdout: "no comment: this is not a run of a pull request\n" });
    const unreachable = await comment("http://127.0.0.1:1");
    expect([unreachable.code, unreachable.stdout]).toEqual([
      0,
      expect.stringContaining("could not be asked"),
    ]);
    const down = await comment(await startGitHub([], 500));
    expect([down.code, down.stdout]).toEqual([
      0,
      expect.stringContaining("::warning title=mcpvals::no comment"),
    ]);
  });
});
