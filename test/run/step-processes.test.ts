import { expanderOf } from "../../src/templates/expand.ts";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { AgentContext } from "../../src/agents/driver.ts";
import type { JsonObject } from "../../src/base/json.ts";
import type { Task } from "../../src/model/task.ts";
import type { ParseTaskOptions } from "../../src/formats/task/parse-task.ts";
import type { TrialServices } from "../../src/run/trial-state.ts";
import { evaluate } from "../../src/index.ts";
import { toldIn } from "../support/agent-context.ts";
import { folderOf, root } from "../support/cli.ts";
import { type PlayedTrial, playTrial, taskFolder, type TrialOptions } from "../support/portable.ts";
import { taskOf } from "../support/task-file.ts";

const fixtureServer = join(root, "test/fixtures/servers/fixture-server.mjs");
const path = process.env["PATH"] ?? "";
/** What every process gets. */
const base = { PATH: path, HOME: "/home/someone", LANG: "C.UTF-8", TMPDIR: "/var/tmp" };
/** What no process gets unless somebody says so. */
const rest = { KUBECONFIG: "/home/someone/.kube", EDITOR: "vi", API_TOKEN: "t-1234", NODE_ENV: "production" };
const shell = { ...base, ...rest };

/** A command that is found in every environment that has a PATH. */
const tell = `exec node -p "JSON.stringify(process.env)"`;
const tellAsJson = `#!/usr/bin/env node
console.log(JSON.stringify({ passed: true, outputs: { env: JSON.stringify(process.env) } }));`;
const give = { env: "{stdout}" };

/** One step of each kind that starts a process, spread over the phases. */
const tellers = {
  setup: [{ command: { id: "command", run: tell, outputs: give } }],
  verify: [
    { script: { id: "script", inline: tell, outputs: give } },
    { group: { steps: [{ script: { id: "json", inline: tellAsJson, protocol: "json" } }] } },
  ],
  cleanup: [{ command: { id: "late", run: tell, outputs: give } }],
};

/** What shells and mcpvals add by themselves. */
const added = new Set(["PWD", "OLDPWD", "SHLVL", "_", "MCPVALS_RUN", "MCPVALS_PROCESS"]);

/** The environments of the processes of a task with this `spec.env`, by step. */
async function environments(
  env: Readonly<Record<string, string>>,
  variables: TrialServices["variables"],
  options: Partial<ParseTaskOptions>,
): Promise<Readonly<Record<string, JsonObject>>> {
  using folder = taskFolder();
  const task = taskOf({ env, ...tellers }, { dir: folder.path, variables: variables.shell, ...options });
  const { events, finished } = await playTrial(task, { services: { variables } });
  if (finished.error !== undefined) throw new Error(finished.error.message);
  const told = events.flatMap((event) =>
    event.type === "step.finished" && typeof event.outputs?.["env"] === "string"
      ? [[event.step.replace(/^.*\//, ""), withoutAdded(event.outputs["env"])] as const]
      : [],
  );
  return Object.fromEntries(told);
}

function withoutAdded(json: string): JsonObject {
  const env = JSON.parse(json) as JsonObject;
  return Object.fromEntries(Object.entries(env).filter(([name]) => !added.has(name)));
}

describe.concurrent("the processes of steps get", () => {
  const declared = {
    LANG: "de",
    WHO: "{task.name}",
    TELL: "{env.WHO} uses {env.EDITOR}",
    ODD: "a  'b' $HOME\n",
  };
  const inheritEnv = ["KUBECONFIG", "EDITOR", "NOT_SET"];
  it.each<[string, Record<string, string>, Record<string, string>, Partial<ParseTaskOptions>, JsonObject]>([
    ["a safe base, and nothing else of the shell", {}, {}, {}, base],
    [
      "spec.env with its templates replaced, which wins over the base",
      declared,
      {},
      {},
      { ...base, LANG: "de", WHO: "a task", TELL: "a task uses vi", ODD: "a  'b' $HOME\n" },
    ],
    [
      "what the command line gives, which wins over all else",
      { WHO: "task", TELL: "{env.WHO}" },
      { WHO: "line", HOME: "/home/other" },
      {},
      { ...base, HOME: "/home/other", WHO: "line", TELL: "line" },
    ],
    [
      "the variables that inheritEnv names",
      { EDITOR: "ed" },
      {},
      { inheritEnv },
      { ...base, KUBECONFIG: rest.KUBECONFIG, EDITOR: "ed" },
    ],
    [
      "the whole shell when inheritEnv says so",
      { EDITOR: "ed" },
      {},
      { inheritEnv: true },
      { ...shell, EDITOR: "ed" },
    ],
  ])("%s", async (_, env, overrides, options, expected) => {
    const found = await environments(env, { overrides, shell }, options);
    expect(found).toEqual({ command: expected, script: expected, json: expected, late: expected });
  });
});

/** The code of the error that listening on a port gives; undefined when it is free. */
async function taken(port: string | undefined): Promise<string | undefined> {
  const server = createServer().listen(Number(port), "127.0.0.1");
  try {
    await once(server, "listening");
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  }
  server.close();
  await once(server, "close");
  return undefined;
}

const listen = (port: string): string =>
  `exec node -e 'require("node:net").createServer().listen(${port}, "127.0.0.1", () => process.exit(7))'`;

describe.concurrent("a random port", () => {
  /** Plays a task whose agent looks which of the ports are taken that its solution says. */
  async function play(task: Task, options: TrialOptions = {}): Promise<PlayedTrial & { found: unknown }> {
    let found: unknown;
    const agent = async ({ solution }: AgentContext): Promise<void> => {
      const [action] = solution?.actions ?? [];
      const ports = action?.kind === "say" ? expanderOf(solution?.scope ?? new Map()).text(action.text) : "";
      found = await Promise.all(ports.split(" ").map(taken));
    };
    return { ...(await playTrial(task, { agent, ...options })), found };
  }

  it("is let go when a process is started with it, and not before", async () => {
    using folder = taskFolder();
    const spec = {
      prompt: "Go.",
      solution: [{ say: "{random.port:a} {random.port:b} {random.port:c}" }],
      setup: [{ command: { run: "true" } }, { command: { run: ": {random.port:a}" } }],
      verify: [
        {
          command: {
            id: "b",
            run: listen("process.env.PORT"),
            env: { PORT: "{random.port:b}" },
            expect: { exitCode: 7 },
          },
        },
        { script: { id: "c", inline: `(${listen("{random.port:c}")}) || test $? = 7` } },
      ],
    };
    const task = taskOf(spec, { dir: folder.path });
    const { found, outcomes, finished } = await play(task);
    expect([found, finished.error]).toEqual([[undefined, "EADDRINUSE", "EADDRINUSE"], undefined]);
    expect(outcomes).toMatchObject({ b: "passed", c: "passed" });
  });

  it("is let go when a server is started with it, and stays the same for the steps", async () => {
    const server = `import { createServer } from "node:net";
const [port, , fixture] = process.argv.splice(2, 3);
createServer((socket) => socket.end("mine")).listen(Number(port), "127.0.0.1", () => import(fixture));`;
    const ask = `require("node:net").connect({random.port:a}, "127.0.0.1").pipe(process.stdout)`;
    const task = {
      apiVersion: "mcp-eval/v1",
      kind: "Task",
      metadata: { name: "t" },
      spec: {
        prompt: "Go.",
        solution: [{ say: "gone" }],
        servers: {
          own: { command: process.execPath, args: ["server.mjs", "{random.port:a}", "--", fixtureServer] },
        },
        verify: [
          { mcp: { server: "own", tool: "echo", args: { message: "hi" } } },
          { command: { run: `exec node -e '${ask}'`, expect: { stdout: "mine" } } },
        ],
      },
    };
    using folder = folderOf({ "server.mjs": server, "t.json": task });
    const { trials } = await evaluate("t.json", { cwd: folder.path, agents: ["oracle"], output: false });
    expect(trials.map(({ verdict, error }) => [verdict, error?.message])).toEqual([["pass", undefined]]);
  });
});

const input = `#!/usr/bin/env node
let text = "";
for await (const chunk of process.stdin) text += chunk;
const { task, agent } = JSON.parse(text);
console.log(JSON.stringify({ passed: true, outputs: { task, agent } }));`;

describe.concurrent("what steps are told of the agent", () => {
  const told = { script: { id: "told", inline: input, protocol: "json" } };
  const quoted = {
    command: { id: "quoted", run: "printf %s {agent.output | sh}", outputs: { said: "{stdout}" } },
  };

  async function outputs(spec: object, options: TrialOptions): Promise<unknown> {
    using folder = taskFolder();
    const task = taskOf({ prompt: "Go.", ...spec }, { dir: folder.path });
    const { events } = await playTrial(task, options);
    const given = events.flatMap((event) =>
      event.type === "step.finished" && event.outputs !== undefined
        ? [[`${event.phase} ${event.step}`, event.outputs] as const]
        : [],
    );
    return Object.fromEntries(given);
  }

  const says =
    (text: string, end: (context: AgentContext) => Promise<void> = () => Promise.resolve()) =>
    async (context: AgentContext): Promise<void> => {
      context.emit({ type: "agent.message", turn: 0, text: "first" });
      context.emit({ type: "agent.message", turn: 0, text });
      await end(context);
    };

  const untilCutOff = ({ signal }: AgentContext): Promise<void> =>
    new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    });

  it("in cleanup: what it said last, and that it came to its end", async () => {
    const both = [quoted, told];
    expect(await outputs({ cleanup: both }, { agent: says("it's done") })).toEqual({
      "cleanup told": {
        task: { name: "a task", prompt: "Go." },
        agent: { output: "it's done", exitCode: 0 },
      },
      "cleanup quoted": { said: "it's done" },
    });
  });

  it.each([
    ["that was cut off", { limits: { trialMs: 300, callMs: 300, modelMs: 300 } }, untilCutOff],
    ["that broke", {}, () => Promise.reject(new Error("broken"))],
  ])("in cleanup, of one %s: what it had said, and that it did not", async (_, services, end) => {
    const given = await outputs({ cleanup: [quoted, told] }, { agent: says("half", end), services });
    expect(given).toEqual({
      "cleanup told": { task: { name: "a task", prompt: "Go." }, agent: { output: "half", exitCode: 1 } },
      "cleanup quoted": { said: "half" },
    });
  });

  it("in verify: its turns as it was told them, with an empty line between them", async () => {
    const spec = { prompt: ["Call {task.name}.", "  Then\nstop.", "Bye {{you}}."], verify: [told] };
    const heard: string[] = [];
    const agent = async (context: AgentContext): Promise<void> => {
      heard.push(...(await toldIn(context)));
    };
    expect(await outputs(spec, { agent })).toEqual({
      "verify told": {
        task: { name: "a task", prompt: "Call a task.\n\n  Then\nstop.\n\nBye {you}." },
        agent: { output: "", exitCode: 0 },
      },
    });
    expect(heard).toEqual(["Call a task.", "  Then\nstop.", "Bye {you}."]);
  });
});
