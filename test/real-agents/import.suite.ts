import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, runCli } from "../support/cli.ts";
import { realAgents } from "./agents.ts";
import { startFakeModel } from "./fake-model.ts";
import { everything, writeFiles } from "./support.ts";

/** How a user has a program do one thing, and then another in the same session. */
interface Use {
  readonly first: readonly string[];
  readonly next: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The file of its home that ends with its server, and what is added there so that it waits for that. */
  readonly waits?: readonly [file: string, lines: string];
  /** Where its transcripts are, in its home. */
  readonly transcripts: string;
  /** Whether they have the tokens of all requests to the model. */
  readonly isWhole: boolean;
}

const codexFlags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];

const uses: Readonly<Record<string, Use>> = {
  "claude-code": {
    first: ["claude", "--print", "--dangerously-skip-permissions"],
    next: ["claude", "--print", "--dangerously-skip-permissions", "--continue"],
    // It waits for its servers, as long as they need on a busy machine.
    env: {
      IS_SANDBOX: "1",
      DISABLE_AUTOUPDATER: "1",
      MCP_CONNECTION_NONBLOCKING: "false",
      MCP_CONNECT_TIMEOUT_MS: "200000",
      MCP_TIMEOUT: "200000",
    },
    transcripts: ".claude/projects",
    isWhole: true,
  },
  codex: {
    first: ["codex", "exec", ...codexFlags],
    next: ["codex", "exec", "resume", "--last", ...codexFlags],
    waits: [".codex/config.toml", "required = true\nstartup_timeout_sec = 200\n"],
    transcripts: ".codex/sessions",
    isWhole: true,
  },
  gemini: {
    first: ["gemini", "--yolo", "--skip-trust", "--prompt"],
    next: ["gemini", "--yolo", "--skip-trust", "--resume", "latest", "--prompt"],
    env: { GEMINI_CLI_TRUST_WORKSPACE: "true" },
    transcripts: ".gemini/tmp",
    isWhole: false,
  },
  opencode: {
    first: ["opencode", "run", "--auto"],
    next: ["opencode", "run", "--auto", "--continue"],
    env: { OPENCODE_DISABLE_AUTOUPDATE: "1" },
    transcripts: "session.json",
    isWhole: false,
  },
};

interface Place {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Runs a program to its end, and gives what it printed. */
async function runProgram([command = "", ...args]: readonly string[], { cwd, env }: Place): Promise<string> {
  const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<number | null>((end) => child.once("close", end));
  const [printed, said, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  expect(code, printed + said).toBe(0);
  return printed;
}

const agents = realAgents.filter(({ preset }) => Object.hasOwn(uses, preset));

describe.each(agents)("the transcript that $preset has just written", ({ preset, home, env }) => {
  test("has the calls and the tokens that the model has seen", async () => {
    const {
      first,
      next,
      env: own,
      waits: [waiting = "", lines] = [],
      transcripts,
      isWhole,
    } = uses[preset] as Use;
    using folder = folderOf({
      "graders.yaml": {
        graders: [
          {
            type: "tool_calls",
            config: { required_tools: ["everything.echo", "everything.get-sum"], max_calls: 6 },
          },
          { type: "behavior", config: { max_tool_errors: 2 } },
        ],
      },
    });
    await using model = await startFakeModel({
      tool: "echo",
      args: { message: "hello" },
      further: [
        { tool: "get-sum", args: { a: 19, b: "x" } },
        { tool: "get-sum", args: { a: 19, b: 23 } },
      ],
      words: "The server said: Echo: hello",
    });
    const user = join(folder.path, "user");
    const cwd = join(user, "project");
    const files = home(model.url, { name: "everything", command: "node", args: everything });
    writeFiles(user, lines === undefined ? files : { ...files, [waiting]: `${files[waiting]}${lines}` });
    mkdirSync(cwd);
    const place = { cwd, env: { HOME: user, PATH: process.env["PATH"] ?? "", ...env(model.url), ...own } };
    await runProgram([...first, "Use the tools."], place);
    await runProgram([...next, "Once more, please."], place);
    if (preset === "opencode") {
      const [session] = JSON.parse(
        await runProgram(["opencode", "session", "list", "--format", "json"], place),
      ) as readonly { readonly id: string }[];
      const exported = await runProgram(["opencode", "export", session?.id ?? ""], place);
      writeFileSync(join(user, transcripts), exported);
    }
    const imported = await runCli(["import", "--json", "--server", "everything", join(user, transcripts)], {
      cwd: folder.path,
    });
    expect(imported.code, imported.stderr).toBe(0);
    const { trials } = JSON.parse(imported.stdout) as RunResult;
    expect(trials).toHaveLength(1);
    const [{ tools, usage, ran, warnings, verdict } = {}] = trials;
    expect([verdict, warnings?.slice(1)]).toEqual(["skip", []]);
    expect(tools).toMatchObject({ toolCalls: 6, servers: { everything: { calls: 6, errors: 2 } } });
    // Of each request the model says 100 tokens in and 20 out.
    const requests = (usage?.inputTokens ?? 0) / 100;
    expect(usage).toMatchObject({ outputTokens: requests * 20, cacheReadTokens: requests * 10 });
    expect(usage?.isPartial).toBe(isWhole ? undefined : true);
    if (isWhole) expect(requests).toBe(model.requests.length);
    else expect([requests >= 8, requests <= model.requests.length]).toEqual([true, true]);
    expect(ran?.models).toHaveLength(1);
    const shown = await runCli(["show", "--tools"], { cwd: folder.path });
    const made = shown.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { server: string; serverTool: string; args: object; turn: number });
    expect(made.map(({ server, serverTool, args, turn }) => [server, serverTool, args, turn])).toEqual(
      [0, 1].flatMap((turn) => [
        ["everything", "echo", { message: "hello" }, turn],
        ["everything", "get-sum", { a: 19, b: "x" }, turn],
        ["everything", "get-sum", { a: 19, b: 23 }, turn],
      ]),
    );
    const graded = await runCli(["grade", "--config", "graders.yaml"], { cwd: folder.path });
    expect(graded.code, graded.stdout + graded.stderr).toBe(0);
  });
});
