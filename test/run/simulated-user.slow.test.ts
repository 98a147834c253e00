import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { type FakeReply, type FakeScript, startFakeProvider } from "../support/fake-provider.ts";
import { lastRunBelow } from "../support/records.ts";
import { acpAgent } from "../support/programs.ts";

const goal = "You want the word that the service echoes, which must be kestrel.";
const facts = ["Your customer number is 4711."];
const model = "anthropic/claude-sonnet-4-5";
const userModel = "openai/gpt-5";

/** A workflow whose second step is a simulated user's. */
const workflow = (user: object, rest: object = {}): object => ({
  name: "w",
  steps: [{ user: "I need a word." }, { user, expectedState: { contains: "kestrel", in: "answer" } }],
  ...rest,
});

const files = (user: object, config: object = {}): Readonly<Record<string, unknown>> => ({
  "mcp-eval.config.json": {
    server: fixtureServer(),
    agent: { model },
    userModel,
    workflows: [workflow(user)],
    ...config,
  },
  "prices.json": { models: { [model]: { input: 3, output: 10 }, [userModel]: { input: 1, output: 2 } } },
});

/** A provider of both models: the agent's speaks Anthropic's wire format, the user's another one. */
async function provider(agent: readonly FakeReply[], user: readonly FakeReply[]) {
  const left = { agent: [...agent], user: [...user] };
  const script: FakeScript = ({ wire }) =>
    left[wire === "anthropic" ? "agent" : "user"].shift() ?? { status: 400, message: "no reply is left" };
  return startFakeProvider(script);
}

const asksForNumber: FakeReply = { text: "What is your customer number?" };
const echoes: FakeReply = { text: "One moment.", tool: "echo", args: { message: "kestrel" } };
const tells: FakeReply = { text: "The word is kestrel." };

it("a model plays the user: it knows goal and facts, hears only what the agent says, and ends the conversation", async () => {
  await using fake = await provider(
    [asksForNumber, echoes, tells],
    [{ text: "It is 4711." }, { text: "Thank you. ###DONE###" }],
  );
  using folder = folderOf(files({ goal, facts }, { prices: "prices.json" }));
  const cli = (...args: readonly string[]) => runHere(args, { cwd: folder.path, env: fake.env });
  const ran = await cli("run");
  expect([ran.code, ran.stdout]).toEqual([0, expect.anything()]);
  const asked = fake.requests.filter(({ wire }) => wire !== "anthropic");
  for (const { system, tools, toolResults } of asked) {
    expect(system).toContain(goal);
    expect(system).toContain("4711");
    expect([tools, toolResults]).toEqual([[], []]);
  }
  expect(asked.map(({ users, assistants }) => [users.slice(1), assistants])).toEqual([
    [["What is your customer number?"], ["I need a word."]],
    [
      ["What is your customer number?", "One moment.\n\nThe word is kestrel."],
      ["I need a word.", "It is 4711."],
    ],
  ]);
  const { result, events } = lastRunBelow(folder.path);
  expect(events.flatMap((event) => (event.type === "turn.started" ? [[event.user, event.by]] : []))).toEqual([
    ["I need a word.", undefined],
    ["It is 4711.", "user-model"],
  ]);
  expect(events.find(({ type }) => type === "user.finished")).toMatchObject({
    reason: "done",
    text: "Thank you.",
  });
  // The agent is told no more than what the user says.
  const told = fake.requests.filter(({ wire }) => wire === "anthropic");
  expect(JSON.stringify(told.map(({ body }) => body))).not.toContain("which must be");
  // What the user used is counted apart, and is part of what the run cost.
  const [trial] = result.trials;
  expect(trial?.usage).toMatchObject({ inputTokens: 30, outputTokens: 15, requests: 3 });
  expect(trial?.userUsage).toMatchObject({ inputTokens: 20, outputTokens: 10, requests: 2 });
  expect(trial?.usage?.cost?.amount).toBeCloseTo((30 * 3 + 15 * 10) / 1e6, 10);
  expect(trial?.userUsage?.cost?.amount).toBeCloseTo((20 * 1 + 10 * 2) / 1e6, 10);
  expect(result.environment.userModel).toEqual({ model: userModel });
  expect(ran.stdout).toContain(
    "users played by openai/gpt-5 (20 tokens in (0 cached), 10 out, 2 model requests)",
  );
  const shown = (await cli("show", "--trial", "t1")).stdout;
  expect(shown).toMatch(/ user: I need a word\.[^]* simulated user: It is 4711\./);
  expect(shown).toMatch(/simulated user ended the conversation: done.*Thank you\./);
  expect((await cli("plan", "--json")).stdout).toContain(`"userModel": "${userModel}"`);
  expect((await cli("validate")).stdout).toContain("simulated users: openai/gpt-5 (1 task)");
});

it("the words of a simulated user are no evidence, unless a tool has said the same", async () => {
  const says = (text: string): FakeReply => ({ text });
  const guesses = [says("Is it kestrel?"), says("###DONE###")];
  const rows: readonly (readonly [agent: readonly FakeReply[], user: readonly FakeReply[], code: number])[] =
    [
      [[says("Which?"), says("Yes, kestrel.")], guesses, 1],
      [[says("Which?"), echoes, says("Yes, kestrel.")], guesses, 0],
      // The agent was first.
      [[says("Which?"), says("kestrel"), says("Yes.")], [says("Say it."), ...guesses], 0],
      // What the user says is no answer, and that it is done is none either.
      [[says("Which?"), says("Yes.")], guesses, 1],
      [[says("Which?")], [says("###DONE###")], 1],
    ];
  for (const [index, [agent, user, code]] of rows.entries())
    for (const checked of [
      {},
      { graders: [{ type: "text", config: { contains: ["kestrel"], in: "all" } }] },
    ]) {
      await using fake = await provider(agent, user);
      const steps = [{ user: "I need a word." }, { user: { goal, facts } }];
      const config = "graders" in checked ? { workflows: [{ name: "w", steps, ...checked }] } : {};
      using folder = folderOf(files({ goal, facts }, config));
      const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
      expect([index, checked, ran.code, ran.stdout]).toEqual([index, checked, code, expect.anything()]);
      if (index === 0)
        expect(ran.stdout).toMatch(/simulated\s+user[^]* simulated Is it kestrel\?[^]* said +Yes/);
    }
});

it.each<[string, readonly FakeReply[], string]>([
  ["refuses", [{ text: "No.", finish: "refusal" }], "gpt-5 refused"],
  ["is cut off", [{ text: "It is", finish: "length" }], "was cut off at its output limit"],
  ["says nothing", [{ text: " " }], "gave an empty answer"],
  ["cannot be asked", [{ status: 401, message: "bad key" }], "the simulated user: openai/gpt-5"],
])("a user's model that %s is an error and no failure of the agent", async (_, user, said) => {
  await using fake = await provider([asksForNumber, tells], user);
  using folder = folderOf(files({ goal, facts }));
  const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
  expect([ran.code, ran.stdout.replaceAll(/\s+/g, " ")]).toEqual([3, expect.stringContaining(said)]);
  expect(lastRunBelow(folder.path).result.trials[0]).toMatchObject({ verdict: "error" });
});

it("a conversation that the user does not end is ended at its limit of turns, and graded as it is", async () => {
  for (const [last, code, warning] of [
    [tells, 0, "did not get what it wanted in 3 turns"],
    [asksForNumber, 1, "did not get what it wanted in 3 turns"],
  ] as const) {
    await using fake = await provider([asksForNumber, asksForNumber, last], [{ text: "a" }, { text: "b" }]);
    using folder = folderOf(files({ goal, maxTurns: 2 }));
    const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
    expect([ran.code, ran.stdout.replaceAll(/\s+/g, " ")]).toEqual([code, expect.stringContaining(warning)]);
  }
  await using fake = await provider([asksForNumber, tells], [{ text: "a" }, { text: "###GIVE-UP###" }]);
  using folder = folderOf(files({ goal }));
  const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
  expect([ran.code, ran.stdout]).toEqual([0, expect.stringContaining("the simulated user gave up")]);
});

it.each([
  [{ goal }, [{ text: "###DONE###" }], "ended the conversation before it had begun"],
  [{ replies: [{ when: "hello", say: "a" }] }, [], "has no reply without `when`"],
] as const)("a conversation without a turn says nothing of the agent: %j", async (user, words, said) => {
  await using fake = await provider([], words);
  const steps = [{ user, expectedState: "kestrel" }];
  using folder = folderOf(files(user, { workflows: [{ name: "w", steps }] }));
  const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
  expect([ran.code, ran.stdout.replaceAll(/\s+/g, " ")]).toEqual([3, expect.stringContaining(said)]);
});

it("a user's model is asked again when its provider is busy", async () => {
  const busy = { status: 503, headers: { "retry-after": "0" } };
  await using fake = await provider(
    [asksForNumber, echoes, tells],
    [busy, { text: "4711" }, { text: "###DONE###" }],
  );
  using folder = folderOf(files({ goal, facts }));
  const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
  expect([ran.code, ran.stdout]).toEqual([0, expect.anything()]);
  expect(lastRunBelow(folder.path).events.find(({ type }) => type === "model.retried")).toMatchObject({
    purpose: "user",
    status: 503,
  });
});

it("a model of users that has no user to play is noted", async () => {
  using folder = folderOf(files({ replies: ["a"] }));
  const ran = await runHere(["validate"], { cwd: folder.path });
  expect([ran.code, ran.stderr]).toEqual([0, expect.stringContaining("userModel has no effect")]);
});

it("an agent that does not end its turn itself ends the conversation, too", async () => {
  await using fake = await provider([{ text: "I will not", finish: "refusal" }], []);
  using folder = folderOf(files({ goal }));
  expect((await runHere(["run"], { cwd: folder.path, env: fake.env })).code).toBe(1);
  expect(lastRunBelow(folder.path).events.find(({ type }) => type === "user.finished")).toMatchObject({
    reason: "agent-cut-off",
  });
});

it("written replies need no model: each is said once, when it fits, to agents of every kind", async () => {
  const said = ["What is your number?", "Is it 4711?", "kestrel"];
  const program = `
    const { existsSync, readFileSync, writeFileSync } = require("node:fs");
    const turn = existsSync("turn") ? Number(readFileSync("turn", "utf8")) : 0;
    writeFileSync("turn", String(turn + 1));
    console.log(${JSON.stringify(said)}[turn]);`;
  const agents = [
    { type: "scripted", plan: { w: said.map((say) => ({ say })) } },
    { type: "command", command: process.execPath, args: ["-e", program, "{prompt}"] },
    // It does what it is told.
    { type: "acp", command: process.execPath, args: [acpAgent] },
  ];
  const words = said.map((say) => `say ${say}`);
  const replies = [
    { when: "NUMBER", say: words[1] },
    { when: "4711", say: words[2] },
    { when: "never said", say: "say what?" },
  ];
  for (const agent of agents) {
    const steps = [{ user: words[0] }, { user: { replies } }];
    const workflows = [{ name: "w", steps, graders: [{ type: "behavior", config: { max_tool_calls: 9 } }] }];
    using folder = folderOf(files({}, { workflows, agent, userModel: undefined }));
    const ran = await runHere(["run"], { cwd: folder.path });
    const { events } = lastRunBelow(folder.path);
    const told = events.flatMap((event) => (event.type === "turn.started" ? [event.user] : []));
    const heard = events.flatMap((event) => (event.type === "agent.message" ? [event.text] : []));
    expect([told, heard, ran.stdout]).toEqual([words, said, expect.anything()]);
    expect(events.find(({ type }) => type === "user.finished")).toMatchObject({ reason: "done" });
  }
});

it("tasks have simulated users too, with templates; validate --run asks no model", async () => {
  const prompt = ["I need a word.", { goal: "You want {env.WORD}.", facts: ["{random.id} is unknown"] }];
  const task = {
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name: "w" },
    spec: {
      env: { WORD: "a bird" },
      servers: { fixture: fixtureServer() },
      prompt,
      verify: [{ command: { run: "printf %s {agent.output}", expect: { stdout: { contains: "kestrel" } } } }],
      solution: [
        { say: "Which bird?" },
        { mcp: { server: "fixture", tool: "echo", args: { message: "kestrel" } } },
        { say: "kestrel" },
      ],
    },
  };
  using folder = folderOf({ "task.json": task });
  const proven = await runHere(["validate", "task.json", "--run"], { cwd: folder.path });
  expect([proven.code, proven.stdout]).toEqual([0, expect.stringContaining("PROVEN")]);
  const refused = await runHere(["run", "task.json"], { cwd: folder.path });
  expect([refused.code, refused.stderr]).toEqual([
    2,
    expect.stringContaining('no model plays the simulated user of "w"'),
  ]);
  const valid = await runHere(["validate", "task.json"], { cwd: folder.path });
  expect([valid.code, valid.stderr]).toEqual([0, expect.stringContaining("without --user-model MODEL")]);
  await using fake = await provider(
    [{ text: "Which?" }, echoes, tells],
    [{ text: "A bird." }, { text: "###DONE###" }],
  );
  const args = ["run", "task.json", "--agent", model, "--user-model", userModel];
  const ran = await runHere(args, { cwd: folder.path, env: fake.env });
  expect([ran.code, ran.stdout]).toEqual([0, expect.anything()]);
  expect(fake.requests.find(({ wire }) => wire !== "anthropic")?.system).toContain("You want a bird.");
});

it("what a task compares with the answer is no evidence either where the simulated user had said it first", async () => {
  const task = (say: string): object => ({
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name: "w" },
    spec: {
      servers: { fixture: fixtureServer() },
      prompt: ["I need a word.", { replies: [say] }],
      verify: [{ command: { run: "printf %s {agent.output}", expect: { stdout: { contains: "kestrel" } } } }],
    },
  });
  for (const [say, agent, code] of [
    ["Is it kestrel?", [{ text: "Which?" }, { text: "Yes, kestrel." }], 1],
    ["Is it kestrel?", [{ text: "Which?" }, echoes, { text: "Yes, kestrel." }], 0],
    ["Is it kestrel?", [{ text: "kestrel?" }, { text: "Yes, kestrel." }], 0],
    ["What is it?", [{ text: "Which?" }, { text: "It is kestrel." }], 0],
  ] as const) {
    await using fake = await provider(agent, []);
    using folder = folderOf({ "task.json": task(say) });
    const args = ["run", "task.json", "--agent", model];
    const ran = await runHere(args, { cwd: folder.path, env: fake.env });
    expect([say, agent, ran.code, ran.stdout]).toEqual([say, agent, code, expect.anything()]);
    if (code === 1) expect(ran.stdout.replaceAll(/\s+/g, " ")).toContain("the simulated user had said it");
  }
});

it.each<[what: string, verify: object, said: { readonly code: number; readonly text?: string }]>([
  [
    "a place in JSON",
    {
      command: {
        run: "printf '[\"kestrel\"]'",
        stdin: "{agent.output}",
        expect: { stdout: { json: [{ path: "$[0]", equals: "kestrel" }] } },
      },
    },
    { code: 1, text: 'the answer has "kestrel" only because the simulated user had said it' },
  ],
  [
    "a pattern",
    { command: { run: "cat", stdin: "{agent.output}", expect: { stdout: { matches: "kes.rel" } } } },
    { code: 1, text: 'the answer has "kes.rel" only because the simulated user had said it' },
  ],
  [
    "the result of a call",
    {
      mcp: {
        server: "fixture",
        tool: "echo",
        args: { message: "{agent.output}" },
        expect: { result: "kestrel" },
      },
    },
    { code: 1, text: 'the answer has "kestrel" only because the simulated user had said it' },
  ],
  [
    "an exit code",
    { command: { run: "grep -q kestrel", stdin: "{agent.output}" } },
    {
      code: 0,
      text: 'in which "kestrel" only repeats the simulated user: it may have passed because of that',
    },
  ],
  [
    "an exit code of something else",
    { command: { run: "grep -q Yes", stdin: "{agent.output}" } },
    { code: 0 },
  ],
])("a check by %s of an answer that repeats the simulated user", async (_, verify, { code, text }) => {
  const task = {
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name: "w" },
    spec: {
      servers: { fixture: fixtureServer() },
      prompt: ["I need a word.", { replies: ["Is it kestrel, or falcon?"] }],
      verify: [verify],
    },
  };
  await using fake = await provider([{ text: "Which?" }, { text: "Yes, kestrel." }], []);
  using folder = folderOf({ "task.json": task });
  const ran = await runHere(["run", "task.json", "--agent", model], { cwd: folder.path, env: fake.env });
  const shown = ran.stdout.replaceAll(/\s+/g, " ");
  expect([ran.code, shown]).toEqual([code, expect.stringContaining(text ?? "1 passed")]);
  if (text === undefined) expect(shown).not.toContain("simulated user:");
});

it("a guess that the user confirms, and a tool that gives back what the user said, are warnings", async () => {
  const guesses = [{ text: "Is it kestrel?" }, { text: "###DONE###" }];
  for (const [agent, user, warning] of [
    [
      [{ text: "Is it kestrel?" }, { text: "kestrel" }],
      [{ text: "Yes, kestrel." }, { text: "###DONE###" }],
      "the agent said it before any tool did, and the simulated user after it: it may be a guess",
    ],
    [
      [{ text: "Which?" }, echoes, { text: "Yes, kestrel." }],
      guesses,
      "only calls that had it in their arguments returned it, after the simulated user had said it",
    ],
    // The call was there before the user said it.
    [[echoes, { text: "kestrel" }, { text: "Yes, kestrel." }], guesses, undefined],
  ] as const) {
    await using fake = await provider(agent, user);
    const graders = [{ type: "text", name: "t", config: { regex_match: ["kes.rel"] } }];
    using folder = folderOf(files({ goal, facts }, { workflows: [workflow({ goal, facts }, { graders })] }));
    const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
    expect(ran.code, ran.stdout).toBe(0);
    const [trial] = lastRunBelow(folder.path).result.trials;
    const doubts = trial?.warnings?.filter((each) => /^expectedState|^grader "t"/.test(each)) ?? [];
    expect(doubts).toEqual(
      warning === undefined ? [] : [expect.stringContaining(warning), expect.stringContaining(warning)],
    );
  }
});

it("another model of the user makes another task of it, which compare does not mix with the first one", async () => {
  const replies = (): Promise<Awaited<ReturnType<typeof startFakeProvider>>> =>
    provider([asksForNumber, tells], [{ text: "It is 4711." }, { text: "###DONE###" }]);
  using folder = folderOf(files({ goal, facts }));
  for (const user of [userModel, "openai/gpt-4o"]) {
    await using fake = await replies();
    await runHere(["run", "--user-model", user], { cwd: folder.path, env: fake.env });
  }
  const runs = readdirSync(join(folder.path, ".mcpvals/runs")).toSorted();
  const prints = runs.map((run) => {
    const text = readFileSync(join(folder.path, ".mcpvals/runs", run, "result.json"), "utf8");
    return (JSON.parse(text) as RunResult).fingerprints?.["w"];
  });
  expect(new Set(prints).size).toBe(2);
  const compared = await runHere(["compare", ...runs], { cwd: folder.path });
  expect(compared.stdout.replaceAll(/\s+/g, " ")).toContain(
    "w not compared: the task, or how it is graded, is not the same",
  );
});

it.each([
  [{ goal, replies: ["a"] }, "must have either goal or replies"],
  [{ facts }, "must have either goal or replies"],
  [{ replies: ["a"], maxTurns: 3 }, "has facts or maxTurns, which need goal"],
  [{ goal, maxTurns: 0 }, "maxTurns"],
])("a user that cannot be played is refused: %j", async (user, said) => {
  using folder = folderOf(files(user));
  const ran = await runHere(["validate"], { cwd: folder.path });
  expect([ran.code, ran.stderr]).toEqual([2, expect.stringContaining(said)]);
});

it("a simulated user stands in the last step only", async () => {
  const steps = [{ user: { goal } }, { user: "Bye.", expectedState: "x" }];
  using folder = folderOf(files({}, { workflows: [{ name: "w", steps }] }));
  const ran = await runHere(["validate"], { cwd: folder.path });
  expect([ran.code, ran.stderr]).toEqual([2, expect.stringContaining("must be in the last turn")]);
});

it("a prompt before the simulated user that has what is expected is a warning", async () => {
  using folder = folderOf({
    "mcp-eval.config.json": {
      server: fixtureServer(),
      agent: "a",
      agents: { a: { type: "scripted", plan: { w: [{ say: "Shall I?" }, { say: "It is kestrel." }] } } },
      workflows: [
        {
          name: "w",
          steps: [
            { user: "Is it kestrel?" },
            { user: { replies: ["Yes."] }, expectedState: { contains: "kestrel", in: "answer" } },
          ],
        },
      ],
    },
  });
  await runHere(["run"], { cwd: folder.path });
  expect(lastRunBelow(folder.path).result.trials[0]?.warnings?.join()).toContain(
    "is in the user's message and in no tool result",
  );
});
