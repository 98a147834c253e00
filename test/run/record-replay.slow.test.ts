import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { TraceEvent } from "../../src/model/event.ts";
import type { RunResult } from "../../src/model/result.ts";
import { RecordReplay } from "../../src/run/record-replay.ts";
import { createRedactor } from "../../src/trace/redact.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, type HereOutcome, root, runHere } from "../support/cli.ts";
import { type FakeReply, startFakeProvider } from "../support/fake-provider.ts";
import { hasNamespaces, runWithoutLoopback } from "../support/no-loopback.ts";
import { lastRunBelow } from "../support/records.ts";

const model = "anthropic/claude-sonnet-4-5";
const key = "the-token-of-the-server-4711";

const config = (rest: object = {}, server: object = fixtureServer()): object => ({
  servers: { fixture: { ...server, env: { TOKEN: "${TOKEN}" } } },
  agent: { model },
  workflows: [
    {
      name: "w",
      fixtures: ["note.txt"],
      steps: [{ user: "Use the tools.", expectedState: { contains: "kestrel", in: "answer" } }],
      expectTools: ["echo"],
    },
  ],
  ...rest,
});

/** It is throttled once, calls two tools at once, then one that gives the server's variables, then answers. */
const script: readonly FakeReply[] = [
  { status: 429, headers: { "retry-after": "0" } },
  {
    tools: [
      { tool: "slow", args: { ms: 60 } },
      { tool: "echo", args: { message: "kestrel" } },
    ],
  },
  { text: "One more.", tool: "env", args: {} },
  { text: "The word is kestrel." },
];

interface Recorded extends HereOutcome {
  readonly result: RunResult;
  readonly events: readonly TraceEvent[];
}

async function runIn(
  cwd: string,
  env: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<Recorded> {
  const outcome = await runHere(["run", ...args], { cwd, env });
  return { ...outcome, ...lastRunBelow(cwd) };
}

/** The events as text, without what no two runs have in common: times, and the names of temporary folders. */
function trajectoryOf(events: readonly TraceEvent[]): string {
  const workspace = events.find((event) => event.type === "workspace.created")?.path ?? "no workspace";
  const text = events
    .map((event) =>
      JSON.stringify(event, (name, value: unknown) => (/^at$|Ms$/.test(name) ? undefined : value)),
    )
    .join("\n");
  return text.replaceAll(workspace, "WORKSPACE");
}

/** A folder with a config and a recording of it. */
async function recorded(rest: object = {}, replies = script) {
  const folder = folderOf({ "mcp-eval.config.json": config(rest), "note.txt": "a note" });
  await using fake = await startFakeProvider(replies);
  const first = await runIn(folder.path, { ...fake.env, TOKEN: key }, "--record", "recordings");
  const files = readdirSync(join(folder.path, "recordings")).map((name) =>
    join(folder.path, "recordings", name),
  );
  return {
    ...first,
    folder,
    files,
    asked: fake.requests.length,
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

/** No provider can be reached, and the variable that the config asks for is not set. */
const offline = { ANTHROPIC_BASE_URL: "http://127.0.0.1:9" };

describe("a run that is replayed", () => {
  it("has the same trajectory byte for byte, times apart, without servers, models and keys", async () => {
    using first = await recorded();
    expect([first.code, first.stdout]).toEqual([0, expect.anything()]);
    expect(first.asked).toBe(4);
    const again = await runIn(first.folder.path, offline, "--replay", "recordings");
    expect(again.code).toBe(0);
    expect(again.stderr).not.toContain("were not made");
    expect(trajectoryOf(again.events)).toBe(trajectoryOf(first.events));
    expect(again.events.some(({ type }) => type === "model.retried")).toBe(true);
    expect(again.stdout).toContain("servers and models replayed from recordings");
    expect(again.result.environment.replayed).toEqual(["servers", "models"]);
  });

  it("takes the time of the recorded calls, so that latencies are those of the servers", async () => {
    using first = await recorded();
    const again = await runIn(first.folder.path, offline, "--replay", "recordings");
    const slow = ({ events }: Recorded): number => {
      const of = (direction: string, isIt: (json: string) => boolean): number =>
        events.find(
          (event) =>
            event.type === "mcp.message" &&
            event.direction === direction &&
            isIt(JSON.stringify(event.message)),
        )?.at ?? Number.NaN;
      const asked = of("client-to-server", (json) => json.includes('"name":"slow"'));
      const id = events.flatMap((event) =>
        event.type === "mcp.message" && JSON.stringify(event.message).includes('"name":"slow"')
          ? [(event.message as { id: number }).id]
          : [],
      )[0];
      return of("server-to-client", (json) => json.includes(`"id":${id}`)) - asked;
    };
    expect(slow(again)).toBeGreaterThanOrEqual(slow(first) - 0.01);
  });

  it("has no secret in its recording", async () => {
    using first = await recorded();
    expect(first.files).toHaveLength(1);
    const text = first.files.map((file) => readFileSync(file, "utf8")).join("");
    expect(text).toContain("[secret:TOKEN]");
    expect(text).not.toContain(key);
    expect(text).not.toContain(Buffer.from(key).toString("base64").slice(0, 20));
  });

  it("is an error of the environment where another request is made, with the nearest that was recorded", async () => {
    using first = await recorded();
    const changed = { ...(config() as { workflows: object[] }) };
    changed.workflows = [
      {
        name: "w",
        fixtures: ["note.txt"],
        steps: [{ user: "Use the tool.", expectedState: { contains: "kestrel", in: "answer" } }],
      },
    ];
    writeFileSync(join(first.folder.path, "mcp-eval.config.json"), JSON.stringify(changed));
    const again = await runIn(first.folder.path, offline, "--replay", "recordings");
    expect(again.code).toBe(3);
    expect(again.result.trials.map(({ verdict, error }) => [verdict, error?.code])).toEqual([
      ["error", "replay/not-recorded"],
    ]);
    expect(again.result.trials[0]?.error?.message).toContain('"Use the tool.", expected "Use the tools."');
  });

  it("names tasks that have no recording, and recordings that have no task", async () => {
    using first = await recorded();
    const { workflows } = config() as { workflows: object[] };
    const renamed = config({ workflows: [{ ...workflows[0], name: "v" }] });
    writeFileSync(join(first.folder.path, "mcp-eval.config.json"), JSON.stringify(renamed));
    const again = await runIn(first.folder.path, offline, "--replay", "recordings");
    expect(again.code).toBe(3);
    expect(again.result.trials[0]?.error?.message).toContain('recorded tasks are "w"');
    expect(again.stderr).toContain("recordings of other tasks: w");
  });

  it("has an attempt only if it was recorded", async () => {
    using first = await recorded();
    const again = await runIn(first.folder.path, offline, "--replay", "recordings", "--trials", "2");
    expect(again.result.trials.map(({ verdict }) => verdict)).toEqual(["pass", "error"]);
    expect(again.result.trials[1]?.error?.message).toContain("no recording of attempt 2");
  });
});

it.skipIf(!hasNamespaces)("a replay needs no network, not even loopback", async () => {
  using first = await recorded();
  const { path } = first.folder;
  const { status, stdout } = runWithoutLoopback(path, "run", "--replay", "recordings");
  expect([status, stdout]).toEqual([0, expect.stringContaining("1 passed")]);
  expect(trajectoryOf(lastRunBelow(path).events)).toBe(trajectoryOf(first.events));
});

describe("one side alone", () => {
  it("servers answer another model, and give an answer only to what was asked before", async () => {
    using first = await recorded();
    await using fake = await startFakeProvider([
      { tool: "echo", args: { message: "kestrel" } },
      { text: "It is kestrel." },
      { tool: "echo", args: { message: "a merlin" } },
      { text: "It is kestrel." },
    ]);
    const run = () => runIn(first.folder.path, { ...fake.env, TOKEN: key }, "--replay-servers", "recordings");
    const other = await run();
    expect([other.code, other.result.environment.replayed]).toEqual([0, ["servers"]]);
    expect(other.stderr).toContain('t1: recorded requests that were not made: tools/call {"name":"slow"');
    const unknown = await run();
    expect(unknown.result.trials[0]?.error?.message).toContain(
      'tools/call {"name":"echo","arguments":{"message":"a merlin"}} is not in',
    );
    expect(unknown.result.trials[0]?.error?.message).toContain('"a merlin", expected "kestrel"');
  });

  it("models meet another server, and the first answer that differs ends it", async () => {
    using first = await recorded();
    const same = await runIn(first.folder.path, { ...offline, TOKEN: key }, "--replay-models", "recordings");
    expect(same.result.environment.replayed).toEqual(["models"]);
    expect(same.result.trials[0]?.error?.message).toMatch(
      /differs from the nearest: the request at \/prompt/,
    );
  });
});

/** Records a config, then replays another one, offline. */
async function recordedThen(
  first: object,
  then: object,
  {
    replies = [],
    args = [],
  }: { readonly replies?: readonly FakeReply[]; readonly args?: readonly string[] } = {},
): Promise<{ readonly first: Recorded; readonly again: Recorded }> {
  using folder = folderOf({ "mcp-eval.config.json": first, "note.txt": "a note" });
  await using fake = await startFakeProvider(replies);
  const outcome = await runIn(folder.path, { ...fake.env, TOKEN: key }, "--record", "recordings", ...args);
  writeFileSync(join(folder.path, "mcp-eval.config.json"), JSON.stringify(then));
  const again = await runIn(folder.path, offline, "--replay", "recordings", ...args);
  return { first: outcome, again };
}

const verdictsOf = ({ result }: Recorded): readonly string[] => result.trials.map(({ verdict }) => verdict);
const errorOf = ({ result }: Recorded): string =>
  `${result.trials[0]?.error?.code} ${result.trials[0]?.error?.message}`;

const asking = (era: string): object => ({
  transport: "stdio",
  command: process.execPath,
  args: [join(root, "test/fixtures/servers/asking-server.ts"), era],
});

/** A workflow with a scripted agent. */
const scripted = (servers: object, calls: readonly object[], rest: object = {}, name = "w"): object => ({
  servers,
  agent: { type: "scripted", plan: { [name]: [...calls, { say: "done" }] } },
  workflows: [
    {
      name,
      servers: Object.keys(servers),
      steps: [{ user: "Do it.", expectedState: { contains: "done", in: "answer" } }],
      ...rest,
    },
  ],
});

describe("all that asks models", () => {
  it("a simulated user, who is another model", async () => {
    const user = { goal: "You want the word that the service echoes." };
    const told = { user, expectedState: { contains: "kestrel", in: "answer" } };
    const workflows = [{ name: "w", steps: [{ user: "I need a word." }, told] }];
    const talking = config({ userModel: "openai/gpt-5", workflows });
    const replies = [
      { text: "Which one?" },
      { text: "The usual one." },
      { tool: "echo", args: { message: "kestrel" } },
      { text: "It is kestrel." },
      { text: "Thank you. ###DONE###" },
    ];
    const { first, again } = await recordedThen(talking, talking, { replies });
    expect([verdictsOf(first), errorOf(first)]).toEqual([["pass"], expect.anything()]);
    expect(trajectoryOf(again.events)).toBe(trajectoryOf(first.events));
    expect(again.events.some((event) => event.type === "model.called" && event.purpose === "user")).toBe(
      true,
    );
  });

  it("a judge, whose requests have a text that is new each time", async () => {
    const workflows = [{ name: "w", steps: [{ user: "Say it." }, { user: "Again." }] }];
    const judged = config({ judge: { model }, llmJudge: true, workflows });
    const replies = [
      { tool: "echo", args: { message: "kestrel" } },
      { text: "ok" },
      { text: "kestrel" },
      { text: '{"score":1,"reason":"good"}' },
    ];
    const { first, again } = await recordedThen(judged, judged, { replies });
    expect([verdictsOf(first), verdictsOf(again)]).toEqual([["pass"], ["pass"]]);
    expect(trajectoryOf(again.events)).toBe(trajectoryOf(first.events));
  });

  it.each(["legacy", "modern"])(
    "a server of the %s protocol that asks for sampling and elicitation",
    async (era) => {
      const asked = {
        server: asking(era),
        agent: { model },
        workflows: [
          {
            name: "w",
            elicitation: [{ action: "accept", content: { colour: "red" } }],
            steps: [{ user: "Ask.", expectedState: { contains: "done", in: "answer" } }],
          },
        ],
      };
      const replies = [
        { tool: "ask-model", args: {} },
        { text: "hi" },
        { tool: "ask-user", args: {} },
        { text: "done" },
        { text: "done" },
      ];
      const { first, again } = await recordedThen(asked, asked, { replies });
      expect(first.result.trials[0]?.error).toBeUndefined();
      expect(trajectoryOf(again.events)).toBe(trajectoryOf(first.events));
    },
  );

  it("a server that trials share, for the trial whose call it answers", async () => {
    const shared = {
      server: { ...asking("legacy"), lifetime: "per_run" },
      agent: { model },
      workflows: [{ name: "w", steps: [{ user: "Ask." }], expectTools: ["ask-model"] }],
    };
    const one = [{ tool: "ask-model", args: {} }, { text: "hi" }, { text: "done" }];
    const { again } = await recordedThen(shared, shared, {
      replies: [...one, ...one],
      args: ["--trials", "2"],
    });
    expect([verdictsOf(again), again.stderr]).toEqual([
      ["pass", "pass"],
      expect.not.stringContaining("were not made"),
    ]);
  });
});

describe("what was not recorded never passes", () => {
  it("an answer to a server's question", async () => {
    const elicited = (colour: string): object =>
      scripted({ asking: asking("legacy") }, [{ call: "ask-user", args: {} }], {
        elicitation: [{ action: "accept", content: { colour } }],
      });
    const { first, again } = await recordedThen(elicited("red"), elicited("blue"));
    expect([verdictsOf(first), verdictsOf(again)]).toEqual([["pass"], ["error"]]);
    expect(errorOf(again)).toMatch(
      /^replay\/not-recorded server "asking": the answer .*answer\/content\/colour is "blue", expected "red"/,
    );
  });

  it("a trial whose only server it can do without", async () => {
    const optional = (name: string): object =>
      scripted({ fixture: { ...fixtureServer(), required: false } }, [], {}, name);
    const { first, again } = await recordedThen(optional("v"), optional("w"));
    expect([verdictsOf(first), verdictsOf(again)]).toEqual([["pass"], ["error"]]);
    expect(errorOf(again)).toContain('has no recording of attempt 1 of "w"');
  });

  it("a server, while another one waits for its turn to start", async () => {
    const two = (name: string): object => scripted({ [name]: fixtureServer(), b: fixtureServer() }, []);
    const { again } = await recordedThen(two("a"), two("c"));
    expect(errorOf(again)).toMatch(/^replay\/not-recorded .* has no server "c"/);
  });

  it("a request of cleanup", async () => {
    const task = (name: string): string => `kind: Task
apiVersion: mcp-eval/v1
metadata: { name: t }
spec:
  servers:
    memory: { command: mcp-server-memory, env: { MEMORY_FILE_PATH: "{workspace}/memory.jsonl" } }
  prompt: Do it.
  verify: [{ file: { path: "{workspace}/none.txt", absent: true } }]
  cleanup: [{ mcp: { server: memory, tool: open_nodes, args: { names: ["${name}"] } } }]
  solution: [{ say: done }]
`;
    using folder = folderOf({ "task.yaml": task("one") });
    const args = ["task.yaml", "-a", "oracle"];
    const first = await runIn(folder.path, {}, ...args, "--record", "recordings");
    writeFileSync(join(folder.path, "task.yaml"), task("other"));
    const again = await runIn(folder.path, {}, ...args, "--replay", "recordings");
    expect([verdictsOf(first), verdictsOf(again)]).toEqual([["pass"], ["error"]]);
    expect(errorOf(again)).toContain("replay/not-recorded");
  });
});

describe("a server that the task can do without, and that did not start", () => {
  it("does not start in the replay either", async () => {
    const down = scripted(
      {
        down: { transport: "stdio", command: "no-such-program", required: false },
        fixture: fixtureServer(),
      },
      [{ call: "echo", args: { message: "hi" } }],
    );
    const { first, again } = await recordedThen(down, down);
    expect([verdictsOf(first), verdictsOf(again)]).toEqual([["pass"], ["pass"]]);
    expect(trajectoryOf(again.events)).toBe(trajectoryOf(first.events));
  });
});

describe("tool tests", () => {
  const suite = (tests: object[]): object => ({
    agent: undefined,
    workflows: [],
    toolHealthSuites: [{ name: "suite", server: "fixture", tests }],
  });

  it("are replayed, with the crash of the server where it was", async () => {
    const tests = [
      { name: "echo", args: { message: "hi" }, expectedResult: "hi" },
      { name: "crash", args: { code: 7 }, expectedResult: "anything" },
    ];
    using first = await recorded(suite(tests), []);
    expect(first.result.trials.map(({ verdict }) => verdict)).toEqual(["pass", "fail"]);
    const again = await runIn(first.folder.path, offline, "--replay", "recordings");
    expect(again.result.trials.map(({ verdict }) => verdict)).toEqual(["pass", "fail"]);
    expect(trajectoryOf(again.events)).toBe(trajectoryOf(first.events));
  });
});

describe("a task with several servers, random values and files that servers write", () => {
  const task = join(root, "examples/tasks/handover.yaml");

  it("has the same trajectory byte for byte, with the files", async () => {
    using folder = folderOf({});
    const first = await runIn(folder.path, {}, task, "-a", "oracle", "--record", "recordings");
    expect([first.code, first.stdout]).toEqual([0, expect.anything()]);
    const again = await runIn(folder.path, {}, task, "-a", "oracle", "--replay", "recordings");
    expect([again.code, again.stdout]).toEqual([0, expect.anything()]);
    expect(trajectoryOf(again.events)).toBe(trajectoryOf(first.events));
  });

  it("has only the files of calls that are made again", async () => {
    using folder = folderOf({});
    await runIn(folder.path, {}, task, "-a", "oracle", "--record", "recordings");
    const idle = await runIn(folder.path, {}, task, "-a", "null", "--replay-servers", "recordings");
    expect(idle.code).toBe(1);
    expect(idle.result.trials.map(({ verdict }) => verdict)).toEqual(["fail"]);
  });

  it("has no secret that a server wrote into a file", () => {
    using folder = folderOf({ "workspace/note.txt": "a note" });
    const workspace = join(folder.path, "workspace");
    const redact = createRedactor([{ name: "TOKEN", value: key }]);
    const recording = new RecordReplay({ record: "recordings" }, { cwd: folder.path, redact });
    const trial = { id: "t1", task: "w", agent: null, attempt: 1 };
    const begun = recording.begin(trial, () => undefined);
    begun.ownValue("workspace", workspace);
    const events: TraceEvent[] = [];
    const emit = begun.emitting((event) =>
      events.push({ ...event, seq: events.length + 1, at: 0, trial: "t1" }),
    );
    emit({ type: "phase.started", phase: "agent" });
    writeFileSync(join(workspace, "out.txt"), `the token: ${key}`);
    emit({ type: "mcp.message", server: "s", direction: "server-to-client", message: { result: {} } });
    begun.end(events, "pass");
    const written = readFileSync(join(folder.path, "recordings/w--1.jsonl"), "utf8");
    expect(written).toContain('"path":"out.txt"');
    expect(written).toContain("the token: [secret:TOKEN]");
    expect(written).not.toContain(key);
  });

  it("never writes a file outside of the workspace", async () => {
    using folder = folderOf({});
    await runIn(folder.path, {}, task, "-a", "oracle", "--record", "recordings");
    const [name = ""] = readdirSync(join(folder.path, "recordings"));
    const file = join(folder.path, "recordings", name);
    const text = readFileSync(file, "utf8").replaceAll('"path":"memory.jsonl"', '"path":"../outside.txt"');
    writeFileSync(file, text);
    const again = await runIn(folder.path, {}, task, "-a", "oracle", "--replay", "recordings");
    expect(again.result.trials[0]?.error?.code).toBe("replay/unreadable");
    expect(again.result.trials[0]?.error?.message).toContain("../outside.txt, which is not in the workspace");
  });
});

describe("recordings that cannot be read", () => {
  it.each([
    ['{"recording":1', "its last line is cut off"],
    ['{"recording":2}\n', "it has version 2 of the format"],
    ["hello\n", "line 1 is not JSON"],
    ['{"recording":1}\n', "line 1 does not say of which trial it is"],
    [
      '{"recording":1,"mcpvals":"1","task":"w","agent":null,"attempt":1,"values":{}}\n{"server":{}}\n',
      "line 2 is not one",
    ],
    [
      '{"recording":1,"mcpvals":"1","task":"w","agent":null,"attempt":1,"values":{}}\n{"model":{"purpose":"agent","model":"m","request":{"asBefore":{}},"events":[]}}\n',
      "line 2 does not say what it repeats",
    ],
  ])("%j: %s", async (text, message) => {
    using folder = folderOf({ "mcp-eval.config.json": config(), "note.txt": "", "recordings/a.jsonl": text });
    const outcome = await runHere(["run", "--replay", "recordings"], { cwd: folder.path, env: offline });
    expect([outcome.code, outcome.stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  it("two of the same trial", async () => {
    const head = '{"recording":1,"mcpvals":"1","task":"w","agent":null,"attempt":1,"values":{}}\n';
    using folder = folderOf({
      "mcp-eval.config.json": config(),
      "note.txt": "",
      "recordings/a.jsonl": head,
      "recordings/b.jsonl": head,
    });
    const outcome = await runHere(["run", "--replay", "recordings"], { cwd: folder.path, env: offline });
    expect([outcome.code, outcome.stderr]).toEqual([2, expect.stringContaining("are of the same trial")]);
  });

  it("a folder that is not there", async () => {
    using folder = folderOf({ "mcp-eval.config.json": config(), "note.txt": "" });
    const outcome = await runHere(["run", "--replay", "nowhere"], { cwd: folder.path, env: offline });
    expect([outcome.code, outcome.stderr]).toEqual([2, expect.stringContaining("the folder does not exist")]);
  });
});
