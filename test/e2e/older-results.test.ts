import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, root, runHere } from "../support/cli.ts";
import { runsBelow } from "../support/records.ts";

// Written by hand after the descriptions of these tools' files.
const fixtures = join(root, "test/fixtures/results");
const place = (name: string): string => join(fixtures, name);

async function importInto(cwd: string, ...args: readonly string[]): Promise<RunResult> {
  const { stdout, stderr } = await runHere(["import", "--json", ...args], { cwd });
  expect(stdout, stderr).toMatch(/^\{/);
  return JSON.parse(stdout) as RunResult;
}

describe("results of mcpchecker", () => {
  test("become trials without a verdict of mcpvals, with that of the tool beside them", async () => {
    using folder = folderOf({});
    const { verdict, passRate, trials, environment } = await importInto(
      folder.path,
      place("mcpchecker-notes-out.json"),
    );
    expect([verdict, passRate]).toEqual(["incomplete", undefined]);
    expect(environment.agents).toEqual([{ name: "openai:gpt-5", type: "transcript" }]);
    expect(trials.map(({ task, attempt, verdict: own, reported }) => [task, attempt, own, reported])).toEqual(
      [
        ["find-note", 1, "skip", { by: "mcpchecker", verdict: "pass", reason: "" }],
        [
          "find-note",
          2,
          "skip",
          {
            by: "mcpchecker",
            verdict: "fail",
            reason: "assertion toolsUsed: tool not called: server=notes, tool=read",
          },
        ],
        [
          "write-note",
          1,
          "error",
          { by: "mcpchecker", verdict: "error", reason: "agent failed: exit status 1" },
        ],
      ],
    );
    const [first, second] = trials;
    expect(first?.grades.at(-1)).toMatchObject({
      grader: "reported-verdict",
      verdict: "skip",
      score: null,
      reason: "mcpchecker reported pass",
    });
    expect(first?.tools).toMatchObject({ toolCalls: 2, servers: { notes: { calls: 2, errors: 0 } } });
    expect(second?.tools).toMatchObject({ servers: { notes: { calls: 1, errors: 1 } } });
    expect(first?.ran).toEqual({ programs: null, models: ["openai:gpt-5"] });
    // What the agent reports; estimates are none.
    expect(first?.usage).toEqual({
      inputTokens: 1200,
      outputTokens: 50,
      cacheReadTokens: 200,
      isPartial: true,
    });
    expect(second?.usage).toBeUndefined();
    const notes = first?.warnings?.join("\n");
    for (const said of [
      "the transcript of mcpchecker says",
      "it does not have what the user said",
      "reads of resources and uses of prompts are left out",
      "uses of the agent's own tools are left out",
    ])
      expect(notes).toContain(said);
    const { code, stdout } = await runHere(["show", "--trial", "t1"], { cwd: folder.path });
    expect([code, stdout]).toEqual([0, expect.stringContaining("mcpchecker reported pass")]);
  });

  test("are graded from their calls and answers", async () => {
    using folder = folderOf({
      "graders.yaml": {
        graders: [
          {
            type: "tool_calls",
            config: { required_tools: ["notes.search", "notes.read"], forbidden_tools: ["notes.delete"] },
          },
          { type: "behavior", config: { max_tool_errors: 0 } },
          { type: "text", config: { contains: ["plans"] } },
        ],
      },
    });
    await importInto(folder.path, place("mcpchecker-notes-out.json"));
    const { stdout } = await runHere(["grade", "--config", "graders.yaml", "-r", "json"], {
      cwd: folder.path,
    });
    const { trials } = JSON.parse(stdout) as RunResult;
    expect(trials.map(({ verdict, reported }) => [verdict, reported?.verdict])).toEqual([
      ["pass", "pass"],
      ["fail", "fail"],
      ["error", "error"],
    ]);
    expect(trials[1]?.grades.flatMap(({ grader, verdict }) => (verdict === "fail" ? grader : []))).toEqual([
      "tool_calls",
      "behavior",
      "text",
    ]);
  });

  test("of two runs are compared by what the tool reported, which is said", async () => {
    using folder = folderOf({});
    const older = await importInto(folder.path, place("gevals-notes-out.json"));
    const newer = await importInto(folder.path, place("mcpchecker-notes-out.json"));
    expect(older.trials[0]?.agent).toBe("unknown");
    expect(older.trials[0]?.reported).toEqual({
      by: "mcpchecker",
      verdict: "fail",
      reason: "verification failed; The note is called plans.",
    });
    const { stdout, stderr } = await runHere(["compare", older.id, newer.id], { cwd: folder.path });
    const said = stdout.replaceAll(/\s+/g, " ");
    expect(said, stderr).toContain("are those that mcpchecker reported: mcpvals has no evidence of them");
    expect(stdout).toMatch(/find-note\s+0\/1 → 1\/2/);
    // No gate rests on them.
    const gate = await runHere(["compare", older.id, newer.id, "--fail-on", "worse"], { cwd: folder.path });
    expect([gate.code, gate.stderr]).toEqual([
      2,
      expect.stringContaining("--fail-on needs verdicts of mcpvals"),
    ]);
  });

  test("count no more when the trials were graded, also where that gave no verdict", async () => {
    using folder = folderOf({
      "graders.yaml": {
        graders: [
          {
            type: "program",
            config: { command: process.execPath, args: ["-e", "process.kill(process.pid)"] },
          },
        ],
      },
    });
    const graded: string[] = [];
    for (const name of ["gevals-notes-out.json", "mcpchecker-notes-out.json"]) {
      await importInto(folder.path, place(name));
      const { stdout } = await runHere(["grade", "--config", "graders.yaml", "-r", "json"], {
        cwd: folder.path,
      });
      const { id, trials } = JSON.parse(stdout) as RunResult;
      expect(new Set(trials.map(({ verdict }) => verdict))).toEqual(new Set(["error"]));
      graded.push(id);
    }
    const { stdout, stderr } = await runHere(["compare", ...graded], { cwd: folder.path });
    expect(stdout, stderr).toContain("no verdict");
    expect(stdout).not.toMatch(/reported|1\/2/);
  });
});

test("results of waza: tools need the names of their servers, and lost arguments are said", async () => {
  using folder = folderOf({});
  const unclear = await importInto(folder.path, place("waza.json"));
  expect(unclear.trials[0]).toMatchObject({ verdict: "error", error: { code: "transcript/unclear-tools" } });
  const { trials } = await importInto(folder.path, place("waza.json"), "--server", "tracker");
  expect(
    trials.map(({ task, agent, attempt, verdict, reported }) => [task, agent, attempt, verdict, reported]),
  ).toEqual([
    ["reads an issue", "copilot", 1, "skip", { by: "waza", verdict: "pass", reason: "" }],
    ["reads an issue", "copilot", 2, "skip", { by: "waza", verdict: "fail", reason: "names-it: no button" }],
  ]);
  expect(trials[0]?.tools).toMatchObject({ servers: { tracker: { calls: 1, errors: 0 } } });
  expect(trials[0]?.warnings?.join("\n")).toContain("waza keeps of the arguments of a call only");
  expect(trials[1]?.warnings?.join("\n")).toContain("it does not have what the user said");
});

test.each([
  ["mcpchecker-notes-out.json", '"taskPassed": true,', '"taskPassed": "yes",', "results.0.taskPassed"],
  [
    "mcpchecker-notes-out.json",
    '"success": false,',
    '"success": 0,',
    "results.1.callHistory.ToolCalls.0.success",
  ],
  [
    "gevals-notes-out.json",
    '"serverName": "notes",',
    '"serverName": 1,',
    "results.0.callHistory.ToolCalls.0.serverName",
  ],
  ["waza.json", '"status": "passed",', '"status": true,', "tasks.0.runs.0.status"],
  ["waza.json", '"runs": [', '"runs": 2, "other": [', "tasks.0.runs"],
])("%s with %s as %s is refused with the place", async (name, from, to, said) => {
  const text = readFileSync(place(name), "utf8");
  expect(text).toContain(from);
  using folder = folderOf({ [name]: text.replace(from, to), "cut.json": text.slice(0, -20) });
  for (const [file, message] of [
    [name, said],
    ["cut.json", "it is no JSON, or was cut off"],
  ] as const) {
    const { code, stderr } = await runHere(["import", file], { cwd: folder.path });
    expect([code, runsBelow(folder.path)]).toEqual([2, []]);
    expect(stderr).toContain(file);
    expect(stderr).toContain(message);
  }
});
