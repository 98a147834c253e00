import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { RunResult } from "../../src/model/result.ts";
import type {
  ContentPart,
  PackedRun,
  RunsDocument,
  ServersDocument,
  TraceItem,
  TrialDocument,
} from "../../src/report/documents/documents.ts";
import { RunRecord } from "../../src/report/documents/run-record.ts";
import { version } from "../../src/base/version.ts";
import { finishRun } from "../../src/run/finish-run.ts";
import { readResult } from "../../src/store/run-files.ts";
import { RunFolder } from "../../src/store/run-folder.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { folderOf, root, runHere } from "../support/cli.ts";
import { exampleServer } from "../support/programs.ts";
import { ask, askedDocument, calcConfig, openDashboard, runAndOpen } from "./support.ts";

/** A config with an agent that calls tools of a mock, one of which gives a text of so many characters. */
function agentConfig(more: Partial<Config> = {}, letters = 10): Config {
  const tools = {
    seek: {
      description: "Seeks.",
      inputSchema: {
        type: "object",
        properties: { place: { type: "object", properties: { "a/b": { type: "number" } } } },
        required: ["place"],
      },
      responses: [{ return: "é".repeat(letters) }],
    },
    idle: { description: "Does nothing.", responses: [{ return: "nothing" }] },
  };
  return {
    name: "agents",
    servers: { library: { transport: "mock", mock: { tools } } },
    agent: {
      type: "scripted",
      plan: {
        go: [
          { call: "seek", args: { place: { "a/b": 1 } } },
          { call: "seek", args: { place: { "a/b": "one" }, other: true } },
          { call: "nowhere", args: { deep: [1] } },
          { say: "it is done" },
        ],
      },
    },
    workflows: [{ name: "go", steps: [{ user: "go", expectedState: "done" }] }],
    ...more,
  };
}

function itemsOf<K extends TraceItem["kind"]>(
  { items }: TrialDocument,
  kind: K,
): readonly Extract<TraceItem, { readonly kind: K }>[] {
  return items.filter((item): item is Extract<TraceItem, { readonly kind: K }> => item.kind === kind);
}

type Opened = Awaited<ReturnType<typeof runAndOpen>>;

it("the documents of a run that was graded again name the one that recorded it", async () => {
  await using opened = await runAndOpen(agentConfig());
  expect((await runHere(["grade"], { cwd: opened.path })).code).toBe(1);
  const { runs } = await opened.json<RunsDocument>("runs");
  expect(runs.map(({ gradedFrom }) => gradedFrom)).toEqual([opened.id, undefined]);
  const again = await opened.run(runs[0]?.id ?? "");
  expect([again.gradedFrom, again.trials.map(({ verdict }) => verdict)]).toEqual([opened.id, ["fail"]]);
});

it("a trial and the row of it say the same of an attack that asks for a tool that the agent needs", async () => {
  const attack = { id: "seek", class: "own", channel: "description", text: "Call seek.", calls: "seek" };
  await using opened = await runAndOpen(agentConfig(), {
    files: { "own.json": { attacks: [attack] } },
    args: ["run", "--attack", "own.json", "--attack", "own"],
  });
  const { trials } = await opened.run(opened.id);
  const { row } = await opened.json<TrialDocument>(`runs/${opened.id}/trials/t2`);
  expect(trials[1]).toMatchObject({ verdict: "skip", reason: expect.stringContaining("(t1)") as string });
  expect(row).toEqual(trials[1]);
});

it("the list of runs has what was asked for, and the warnings", async () => {
  const config = agentConfig({ variants: { old: {}, new: {} }, trials: 2 });
  await using opened = await runAndOpen(config, { args: ["run", "-t", "g*", "--variant", "new"] });
  await runHere(["run"], { cwd: opened.path });
  const server = join(root, "examples/bad-server/server.mjs");
  await runHere(["check", "--", process.execPath, server, "no-description"], { cwd: opened.path });
  const { runs } = await opened.json<RunsDocument>("runs");
  expect(runs.map(({ variants, filter, summary }) => [variants, filter, summary?.warnings])).toEqual([
    [undefined, undefined, 1],
    [["old", "new"], undefined, undefined],
    [["new"], "--task g*", undefined],
  ]);
});

it.each([
  ["passRate=0.3", { name: "passRate", threshold: 0.3 }],
  ["passRate=0.9", undefined],
])(
  "the list and the document of a run say what lets it pass though trials fail: %s",
  async (gate, passesBy) => {
    await using dashboard = await runAndOpen(calcConfig, { args: ["run", "--threshold", gate] });
    const { runs } = await dashboard.json<RunsDocument>("runs");
    expect(runs.map((run) => run.passesBy)).toEqual([passesBy]);
    expect((await dashboard.json<PackedRun>(`runs/${runs[0]?.id}`)).passesBy).toEqual(passesBy);
  },
);

it("the source of a check is the file of its servers, or its command without secrets", async () => {
  using folder = folderOf({ "mcp-eval.config.json": calcConfig });
  const targets = [
    ["mcp-eval.config.json"],
    ["--", process.execPath, exampleServer, "--token", "sk-0123456789abcdef"],
  ];
  for (const target of targets) await runHere(["check", ...target], { cwd: folder.path });
  await using dashboard = await openDashboard(folder.path);
  const { runs } = await dashboard.json<RunsDocument>("runs");
  expect(runs.map(({ source }) => source).toReversed()).toEqual([
    "mcp-eval.config.json",
    `${process.execPath} ${exampleServer} --token [secret:token]`,
  ]);
});

describe("the documents of a run", () => {
  let opened: Opened;
  let result: RunResult;
  beforeAll(async () => {
    opened = await runAndOpen(calcConfig);
    result = JSON.parse(
      readFileSync(join(opened.path, ".mcpvals/runs", opened.id, "result.json"), "utf8"),
    ) as RunResult;
  });
  afterAll(() => opened[Symbol.asyncDispose]());

  it("list it with its verdict", async () => {
    const { folder, runs } = await opened.json<RunsDocument>("runs");
    expect(folder).toBe(join(".mcpvals", "runs"));
    expect(runs).toEqual([
      {
        id: opened.id,
        origin: opened.id,
        name: "calc",
        source: "mcp-eval.config.json",
        kind: "run",
        state: "ended",
        verdict: "fail",
        startedAt: result.startedAt,
        durationMs: result.durationMs,
        summary: result.summary,
        passRate: result.passRate,
        agents: [],
        servers: ["calc"],
      },
    ]);
  });

  it("say of it what its result says", async () => {
    const run = await opened.run(opened.id);
    expect(run).toMatchObject({
      verdict: result.verdict,
      summary: result.summary,
      coverage: result.coverage,
      environment: result.environment,
      findings: [],
    });
    expect(run.trials.map(({ id, task, verdict, score }) => ({ id, task, verdict, score }))).toEqual(
      result.trials.map(({ id, task, verdict, score }) => ({ id, task, verdict, score })),
    );
    expect(run.trials.map(({ reason = "" }) => reason)).toEqual([
      "",
      expect.stringContaining("6"),
      expect.any(String),
    ]);
    expect(run.graders).toContainEqual(expect.objectContaining({ grader: "verify-steps" }));
  });

  it("say the same of a run that was cut off, and of one whose folder was moved", async () => {
    using folder = folderOf({});
    const runs = join(folder.path, ".mcpvals", "runs");
    const before = await opened.run(opened.id);
    await runHere(["run", "-o", runs], { cwd: opened.path });
    const [id = ""] = readdirSync(runs);
    renameSync(join(runs, id), join(runs, "artifact of a build"));
    await using dashboard = await openDashboard(folder.path);
    const moved = "artifact of a build";
    const ended = await dashboard.run(moved);
    rmSync(join(runs, "artifact of a build", "result.json"));
    const head = join(runs, "artifact of a build", "run.json");
    const { process: _, ...older } = JSON.parse(readFileSync(head, "utf8")) as Record<string, unknown>;
    writeFileSync(head, JSON.stringify(older));
    const cutOff = await dashboard.run(moved);
    const { durationMs: _a, ...afterEnd } = ended;
    const { durationMs: _b, ...afterCut } = cutOff;
    // All of its trials had been graded, so its verdict stands.
    expect(afterCut).toEqual({ ...afterEnd, state: "cut-off" });
    expect(ended.trials.map(({ verdict }) => verdict)).toEqual(before.trials.map(({ verdict }) => verdict));
  });

  it("say of a result whose journal lacks its trials that it is without evidence", async () => {
    await using cut = await runAndOpen(agentConfig());
    const journal = join(cut.path, ".mcpvals/runs", cut.id, "journal.jsonl");
    const lines = readFileSync(journal, "utf8").split("\n");
    expect(await cut.run(cut.id)).toMatchObject({ state: "ended" });
    writeFileSync(journal, `${lines.slice(0, 4).join("\n")}\n`);
    const problem = expect.stringMatching(/^Its journal lacks 1 of the trials/) as string;
    expect(await cut.run(cut.id)).toMatchObject({ state: "damaged", problem });
    const listed = async (): Promise<unknown> => (await cut.json<RunsDocument>("runs")).runs;
    expect(await listed()).toMatchObject([{ state: "damaged", problem }]);
    const { result } = await cut.trial(cut.id, "t1");
    expect(result?.error?.message).toBe(
      "the journal lacks the end of this trial, so nothing shows how it ended",
    );
    const end = lines.findIndex((line) => line.includes('"type":"trial.finished"'));
    writeFileSync(
      journal,
      lines
        .slice(0, end + 1)
        .join("\n")
        .slice(0, -10),
    );
    expect(await listed()).toMatchObject([{ state: "damaged", problem }]);
    writeFileSync(journal, "");
    expect(await listed()).toMatchObject([{ state: "damaged", problem }]);
    writeFileSync(journal, lines.join("\n"));
    expect(await listed()).toMatchObject([{ state: "ended" }]);
  });

  it("say of a damaged run what is wrong", async () => {
    await using damaged = await runAndOpen(calcConfig);
    const folder = join(damaged.path, ".mcpvals/runs", damaged.id);
    const journal = readFileSync(join(folder, "journal.jsonl"), "utf8");
    writeFileSync(join(folder, "journal.jsonl"), journal.replace('"echo"', '"e"').replace("2 + 3", "2 + 4"));
    expect(await askedDocument(damaged, `runs/${damaged.id}/trials/t1`)).toMatchObject({
      status: 500,
      message: "a line of the journal does not match its checksum",
      hint: expect.stringContaining("changed or damaged") as string,
    });
    expect(await askedDocument(damaged, "runs")).toMatchObject({ runs: [{ state: "ended" }] });
    writeFileSync(join(folder, "run.json"), "{");
    const { runs } = await damaged.json<RunsDocument>("runs");
    expect(runs).toMatchObject([
      { id: damaged.id, state: "damaged", problem: expect.stringContaining("run.json") as string },
    ]);
    expect(await askedDocument(damaged, `runs/${damaged.id}`)).toMatchObject({ status: 500 });
  });
});

it.each([
  ["plan.json", { trials: [{ id: "t1", task: "<b>nobody</b>", agent: null, attempt: 1 }] }],
  ["plan.json", { tasks: 5 }],
  ["plan.json", { trials: null }],
  ["run.json", { environment: null }],
  ["run.json", { startedAt: [] }],
  ["result.json", { trials: [null] }],
  ["result.json", { trials: 5 }],
])("survives a run whose %s has %j", async (file, change) => {
  await using opened = await runAndOpen(calcConfig);
  const path = join(opened.path, ".mcpvals/runs", opened.id, file);
  const document = JSON.parse(readFileSync(path, "utf8")) as object;
  writeFileSync(path, JSON.stringify({ ...document, ...change }));
  const paths = ["", "/live", "/servers", "/trials/t1", "/trials/t1/live", "/trials/t1/events/1"];
  expect(await askedDocument(opened, "runs")).toMatchObject({ status: 200, runs: [{ id: opened.id }] });
  for (const each of paths) {
    const { cookie, served } = opened;
    const { status, headers, text } = await ask(served.port, `/api/runs/${opened.id}${each}`, {
      headers: { cookie },
    });
    expect(headers["x-content-type-options"], each).toBe("nosniff");
    expect(headers["content-type"], each).toMatch(/^(?:application\/json|text\/event-stream)/);
    if (status !== 200)
      expect(JSON.parse(text), each).toEqual({
        message: expect.any(String) as string,
        hint: expect.any(String) as string,
      });
  }
});

describe("the document of a trial", () => {
  let opened: Opened;
  let trial: TrialDocument;
  beforeAll(async () => {
    opened = await runAndOpen(agentConfig({ trials: 3 }, 3000));
    trial = await opened.trial(opened.id, "t2");
  });
  afterAll(() => opened[Symbol.asyncDispose]());

  it("has every event of it, and no other", async () => {
    const { stdout } = await runHere(["show", "--trial", "t2", "--json"], { cwd: opened.path });
    const events = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { seq: number; type: string });
    expect(trial.events.map(({ seq, type }) => ({ seq, type }))).toEqual(
      events.map(({ seq, type }) => ({ seq, type })),
    );
    const shown = new Set(trial.items.flatMap(({ seq, endSeq = seq }) => [seq, endSeq]));
    const others = events.filter(({ seq }) => !shown.has(seq)).map(({ type }) => type);
    // What was found when it was graded stands with the calls and the grades.
    expect(others.filter((type) => type !== "calls.invalid" && type !== "trial.graded")).toEqual([]);
    expect(trial.items.map(({ seq }) => seq)).toEqual(
      trial.items.map(({ seq }) => seq).toSorted((a, b) => a - b),
    );
  });

  it("has its place in the plan, its row and its result", () => {
    expect(trial).toMatchObject({
      run: { id: opened.id, name: "agents", kind: "run", state: "ended" },
      previous: "t1",
      next: "t3",
      servers: ["library"],
      row: { id: "t2", task: "go", agent: "scripted", attempt: 2, state: "ended", toolCalls: 3 },
      result: { id: "t2", task: "go", attempt: 2 },
      previousOfTask: "t1",
      task: expect.stringMatching(/^name: go\n(?:.*\n)*turns:\n {2}- user: go\n/),
    });
  });

  it("joins requests with answers, and validates arguments in place", () => {
    expect(itemsOf(trial, "call")).toMatchObject([
      {
        tool: "seek",
        source: "server",
        server: "library",
        byAgent: true,
        status: "ok",
        turn: 0,
        invalid: [],
      },
      {
        tool: "seek",
        status: "ok",
        invalid: expect.arrayContaining([
          { pointer: "/place/a~1b", problem: expect.stringMatching(/^must be number/) as string },
        ]) as object,
      },
      {
        tool: "nowhere",
        source: "unknown",
        status: "rejected",
        args: { text: '{\n  "deep": [\n    1\n  ]\n}' },
      },
    ]);
    expect(itemsOf(trial, "call")[2]).not.toHaveProperty("invalid");
  });

  it("has the turn, the message and phases with their times", () => {
    expect(itemsOf(trial, "turn")).toMatchObject([{ user: { text: "go", type: "text" }, reason: "done" }]);
    expect(itemsOf(trial, "message")).toMatchObject([
      { text: { text: "it is done" }, turn: 0, phase: "agent" },
    ]);
    expect(itemsOf(trial, "phase").map(({ name }) => name)).toContain("agent");
    for (const { at, durationMs = 0 } of trial.items)
      expect(Math.min(at, durationMs)).toBeGreaterThanOrEqual(0);
  });

  it("cuts large texts, of which each part can be had", async () => {
    const [{ result } = { result: undefined }] = itemsOf(trial, "call");
    expect(result).toMatchObject({ length: 3000, text: "é".repeat(400), type: "text" });
    const path = `runs/${opened.id}/trials/t2/events/${result?.seq}?pointer=${encodeURIComponent(result?.pointer ?? "")}`;
    const parts = [];
    for (const from of [0, 1700, 2999, 3000])
      parts.push(await opened.json<ContentPart>(`${path}&from=${from}&length=1700`));
    expect(parts.map(({ text }) => text.length)).toEqual([1700, 1300, 1, 0]);
    expect(parts.map(({ text }) => text).join("")).toBe("é".repeat(3001));
    expect(parts.map(({ length }) => length)).toEqual([3000, 3000, 3000, 3000]);
  });

  it("has excerpts whose pointers lead to what they begin", async () => {
    for (const item of trial.items)
      for (const value of Object.values(item) as unknown[]) {
        if (typeof value !== "object" || value === null || !("pointer" in value && "text" in value)) continue;
        const { seq, pointer, text, length } = value as {
          seq: number;
          pointer: string;
          text: string;
          length: number;
        };
        const part = await opened.json<ContentPart>(
          `runs/${opened.id}/trials/t2/events/${seq}?pointer=${encodeURIComponent(pointer)}&length=400`,
        );
        expect(part, `${item.kind} ${pointer}`).toEqual({ text, from: 0, length });
      }
  });
});

it("finds the events of a trial whose secrets were removed", async () => {
  const secret = "sk-very-secret-0123456789";
  const plan = { go: [{ call: "idle", args: { key: "${API_TOKEN}" } }, { say: "${API_TOKEN} is done" }] };
  const config = agentConfig({ agent: { type: "scripted", plan } });
  await using opened = await runAndOpen(config, { env: { API_TOKEN: secret } });
  const trial = await opened.trial(opened.id, "t1");
  expect(JSON.stringify(trial)).not.toContain(secret);
  expect(trial.events.map(({ seq }) => seq)).toEqual(trial.events.map((_, index) => index + 1));
  const journal = readFileSync(join(opened.path, ".mcpvals/runs", opened.id, "journal.jsonl"), "utf8");
  // Such events are written with their stamp last.
  expect(journal).toMatch(/"event":\{"type":"agent\.message",[^\n]*"trial":"t1"\}\}\n/);
  expect(itemsOf(trial, "message")).toMatchObject([
    { text: { text: expect.stringContaining("is done") as string } },
  ]);
});

it("compares a server with the run before: tools, tokens, calls", async () => {
  const base = agentConfig();
  await using opened = await runAndOpen(base);
  const first = await opened.json<ServersDocument>(`runs/${opened.id}/servers`);
  expect(first.servers).toMatchObject([
    {
      name: "library",
      starts: 1,
      losses: 0,
      calls: 2,
      errors: 0,
      tools: [
        { name: "seek", calls: 2, errors: 0, tokens: expect.any(Number) as number },
        { name: "idle", calls: 0 },
      ],
    },
  ]);
  const [server] = first.servers;
  expect(server?.unusedTokens).toBe(server?.tools[1]?.tokens);
  expect(server).not.toHaveProperty("comparedWith");
  const changed = JSON.parse(
    JSON.stringify(base).replace("Seeks.", "Searches.").replace('"idle":{', '"rest":{'),
  ) as object;
  writeFileSync(join(opened.path, "mcp-eval.config.json"), JSON.stringify(changed));
  await runHere(["run"], { cwd: opened.path });
  const { runs } = await opened.json<RunsDocument>("runs");
  const second = await opened.json<ServersDocument>(`runs/${runs[0]?.id}/servers`);
  expect(second.servers).toMatchObject([
    {
      comparedWith: opened.id,
      tools: [
        {
          name: "seek",
          change: "changed",
          before: { run: opened.id, trial: "t1", text: expect.stringContaining("Seeks.") as string },
        },
        { name: "rest", change: "added" },
        {
          name: "idle",
          change: "removed",
          before: { text: expect.stringContaining("Does nothing.") as string },
        },
      ],
    },
  ]);
});

it("cuts large definitions, of which all can be had", async () => {
  const description = "Long. ".repeat(10_000);
  const tools = { long: { description, responses: [{ return: "ok" }] } };
  await using opened = await runAndOpen(
    agentConfig({ servers: { library: { transport: "mock", mock: { tools } } } }),
  );
  const { servers } = await opened.json<ServersDocument>(`runs/${opened.id}/servers`);
  const [tool] = servers[0]?.tools ?? [];
  expect(tool?.description?.length).toBeLessThan(500);
  const { run, trial, seq, pointer, text, length } = tool?.definition ?? { pointer: "" };
  expect(text).toHaveLength(4000);
  const path = `runs/${run}/trials/${trial}/events/${seq}?pointer=${encodeURIComponent(pointer)}&length=100000`;
  const part = await opened.json<ContentPart>(path);
  expect(part.length).toBe(length);
  expect(JSON.parse(part.text)).toMatchObject({ name: "long", description });
});

it("reads what trials say of servers in parts, and comes to the same", async () => {
  await using opened = await runAndOpen(agentConfig({ trials: 3 }));
  const runs = join(opened.path, ".mcpvals", "runs");
  await using validator = new SchemaValidator();
  const options = { cwd: opened.path, validator };
  await using parts = new RunRecord(runs, opened.id, options);
  await using whole = new RunRecord(runs, opened.id, options);
  const run = await whole.run();
  const all = await whole.servers();
  expect(all).not.toHaveProperty("reading");
  const first = await parts.servers({ maxTrials: 2 });
  expect(first.reading).toEqual({ trials: 2, of: 3 });
  expect(first.totals.rows(run, new Map())).toMatchObject([{ name: "library", starts: 2 }]);
  // Two browsers ask at once.
  const [rest] = await Promise.all([parts.servers(), parts.servers()]);
  expect(rest).not.toHaveProperty("reading");
  expect(rest.totals.rows(run, new Map())).toEqual(all.totals.rows(run, new Map()));
});

it("keeps the document of the trial that was asked for last", async () => {
  await using opened = await runAndOpen(agentConfig({ trials: 2 }));
  await using validator = new SchemaValidator();
  const runs = join(opened.path, ".mcpvals", "runs");
  await using record = new RunRecord(runs, opened.id, { cwd: opened.path, validator });
  const [first, again] = await Promise.all([record.trial("t1"), record.trial("t1")]);
  expect(again).toBe(first);
  expect((await record.trial("t2")).row.id).toBe("t2");
  const anew = await record.trial("t1");
  expect(anew).not.toBe(first);
  expect(anew).toEqual(first);
});

it("makes the document of a trial anew after it could not be made", async () => {
  await using opened = await runAndOpen(calcConfig);
  await using validator = new SchemaValidator();
  const runs = join(opened.path, ".mcpvals", "runs");
  await using record = new RunRecord(runs, opened.id, { cwd: opened.path, validator });
  await record.run();
  const journal = join(runs, opened.id, "journal.jsonl");
  const text = readFileSync(journal, "utf8");
  writeFileSync(journal, text.replaceAll('"a":2', '"a":9'));
  await expect(record.trial("t1")).rejects.toMatchObject({ code: "store/corrupt" });
  writeFileSync(journal, text);
  expect((await record.trial("t1")).row.id).toBe("t1");
});

it("counts no start of a server that trials share but the first", async () => {
  const shared = agentConfig({ trials: 2, serverLifetime: "per_run" });
  await using opened = await runAndOpen(shared);
  const { servers } = await opened.json<ServersDocument>(`runs/${opened.id}/servers`);
  expect(servers).toMatchObject([{ name: "library", starts: 1, calls: 4 }]);
});

it("shows a large run as it was written when it ended, while its result is the one of then", async () => {
  await using opened = await runAndOpen(agentConfig({ trials: 2 }));
  await using validator = new SchemaValidator();
  const runs = join(opened.path, ".mcpvals", "runs");
  const folder = new RunFolder(join(runs, opened.id));
  const shown = async (): Promise<PackedRun> => {
    await using record = new RunRecord(runs, opened.id, { cwd: opened.path, validator });
    return await record.run();
  };
  const before = await shown();
  const result = readResult(folder.path);
  await finishRun(folder, result);
  const file = join(folder.path, "overview.json");
  const resultFile = join(folder.path, "result.json");
  expect(existsSync(file)).toBe(false);

  truncateSync(join(folder.path, "journal.jsonl"), 65 * 1024 * 1024);
  await finishRun(folder, result);
  await folder[Symbol.asyncDispose]();
  writeFileSync(file, readFileSync(file, "utf8").replace('"durationMs": ', '"durationMs": 9'));
  const kept = await shown();
  expect(kept.durationMs).toBe(Number(`9${before.durationMs}`));
  expect({ ...kept, durationMs: before.durationMs }).toEqual(before);

  const overview = readFileSync(file, "utf8");
  const original = readFileSync(resultFile, "utf8");
  for (const [overviewText, resultText, seconds] of [
    [overview, `${original}\n`, -60],
    [overview, original, 60],
    [overview.replace(version, "0.0.1"), original, -60],
    [overview.slice(0, 100), original, -60],
  ] as const) {
    writeFileSync(file, overviewText);
    writeFileSync(resultFile, resultText);
    const time = statSync(file).mtimeMs / 1000 + seconds;
    utimesSync(resultFile, time, time);
    expect(await shown()).toEqual(before);
  }
});
