import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../../src/base/json.ts";
import { collectEvidence } from "../../src/report/evidence.ts";
import { readTrace } from "../../src/trace/trajectory.ts";
import type { EventBody } from "../../src/model/event.ts";
import { checkRows, diffLines, evidenceRows, readEvidence } from "../../src/report/explain.ts";
import { grade, request, response, textResult, trialOf, workflow } from "./samples.ts";
import { stepEvents } from "./step-runs.ts";

/** The rows of grades that cite these events, one string a row, the note in brackets. */
function rowsOf(events: readonly EventBody[], ...citations: number[][]): string[] {
  const task = workflow("any");
  const grades = citations.map((cited) => grade("any", 0, "wrong", cited));
  const { events: stamped, result } = trialOf(task, { events, grades });
  const evidence = readEvidence(collectEvidence(readTrace(stamped), grades), result);
  return grades
    .flatMap((each) => evidenceRows(each, evidence))
    .map(({ label, pieces, note }) => {
      const text = pieces.map((piece) => piece.text).join("⏎");
      return `${label}: ${text}${note === undefined ? "" : ` [${note}]`}`;
    });
}

const failed: EventBody = {
  type: "mcp.message",
  server: "everything",
  direction: "server-to-client",
  message: { jsonrpc: "2.0", id: 1, error: { code: -32602, message: "no such city" } },
};

it.each<[string, EventBody[], number[][], string[]]>([
  [
    "structured content that says something else than the text",
    [
      request(1, "add", {}),
      response(1, { ...textResult("5"), structuredContent: { sum: "five" } }),
      request(2, "add", {}),
      response(2, { ...textResult('{ "sum": 5 }'), structuredContent: { sum: 5 } }),
    ],
    [[2, 4]],
    [
      "call: add {} [event 1, 4 ms]",
      "result: 5",
      'json: {"sum":"five"}',
      "call: add {} [event 3, 4 ms]",
      'result: { "sum": 5 }',
    ],
  ],
  [
    "the answer once the call was shown for another grade",
    [request(1, "echo", {}), response(1, textResult("one"))],
    [[1], [2], [2]],
    ["call: echo {} [event 1, 4 ms]", "result: one"],
  ],
  [
    "of a step the calls of its last attempt",
    ["one", "two", "other"].flatMap((text, index) =>
      stepEvents(text === "other" ? text : "call", { type: "mcp", attempt: index + 1 }, [
        request(index, "echo", {}),
        response(index, textResult(text)),
      ]),
    ),
    [[8]],
    ["call: echo {} [event 6, 4 ms]", "result: two"],
  ],
  [
    "the HTTP status of a failed call",
    [
      request(1, "echo", {}),
      { type: "http.response", server: "everything", method: "POST", status: 500, requestIds: [1] },
      failed,
    ],
    [[3]],
    ["call: echo {} [event 1, 8 ms]", "error: HTTP 500: no such city (code -32602)"],
  ],
  [
    "a tool that no server has",
    [{ type: "tool.rejected", tool: "fly", args: {}, reason: "there is no tool fly" }],
    [[1]],
    ["call: fly {} [event 1]"],
  ],
  [
    "words, a server's end and its stderr",
    [
      { type: "turn.started", turn: 0, user: "Hello" },
      { type: "agent.message", turn: 0, text: "Hi\u001b[1m" },
      { type: "server.exited", server: "s", exitCode: 1, signal: null, expected: false },
      { type: "server.exited", server: "s", exitCode: null, signal: "SIGKILL", expected: false },
      { type: "server.stderr", server: "s", text: "boom\n" },
      { type: "server.invalid_output", server: "s", text: "Listening" },
    ],
    [[1, 2, 3, 4, 5, 6]],
    [
      "user: Hello [event 1]",
      "said: Hi\\x1b[1m [event 2]",
      "exited: s with code 1 [event 3]",
      "exited: s on SIGKILL [event 4]",
      "stderr: boom",
      "stdout: Listening [event 6]",
    ],
  ],
  [
    "other messages as they are",
    [
      {
        type: "mcp.message",
        server: "s",
        direction: "server-to-client",
        message: { jsonrpc: "2.0", method: "notifications/progress" },
      },
    ],
    [[1]],
    ['received: {"jsonrpc":"2.0","method":"notifications/progress"} [event 1]'],
  ],
])("shows %s", (_, events, citations, expected) => {
  expect(rowsOf(events, ...citations)).toEqual(expected);
});

it("shortens what is long and counts what it leaves out", () => {
  const events = Array.from({ length: 30 }, (_, index) => request(index, `tool-${index}`, {}));
  const rows = rowsOf(
    events,
    [...events.keys()].map((index) => index + 1),
  );
  expect([rows.length, rows.at(-1)]).toEqual([9, ": … and 22 more events"]);
  const long = [request(1, "echo", { text: "x".repeat(500) }), response(1, textResult("y\n".repeat(50)))];
  expect(rowsOf(long, [2])).toEqual([
    expect.stringMatching(/… \(211 more characters\) \[event 1, 4 ms\]$/u),
    `result: ${"y⏎".repeat(8)}… 42 lines more`,
  ]);
});

describe("the rows of a check", () => {
  function checked(expected: Json, actual: Json, message = "differs", name = "result"): string[] {
    const check = { name, passed: false, expected, actual, message };
    return checkRows(check, message).flatMap(({ label, pieces }) =>
      pieces.map(({ text }) => `${label} ${text}`),
    );
  }

  it.each<[string, [Json, Json, string?, string?], string[]]>([
    ["data in quotes", ["sunny", "it rains"], ['expected "sunny"', 'actual "it rains"']],
    ["nothing that the reason states", [6, 5, "the number found is 5, expected 6"], []],
    ["what the reason has as part of a word", [6, 5, "it is 15, expected 6.5"], ["expected 6", "actual 5"]],
    [
      "our own words without quotes",
      ["a file", "nothing", "told", "exists"],
      ["expected a file", "actual nothing"],
    ],
    [
      "an expectation in words",
      ["a result", "it broke", "", "call"],
      ["expected a result", 'actual "it broke"'],
    ],
  ])("show %s", (_, check, rows) => {
    expect(checked(...check)).toEqual(rows);
  });

  it.each<[string, Json, Json, string[]]>([
    [
      "objects in the order of the expected keys, without those nobody asked about",
      { a: 1, b: { c: 2 } },
      { z: 0, b: { d: 1, c: 3 }, a: 1 },
      ["  {", '    "a": 1,', '    "b": {', '-     "c": 2', '+     "c": 3', "    }", "  }"],
    ],
    [
      "every key where exactly this value was expected",
      { $equals: { a: 1 } },
      { a: 1, b: 2 },
      ["  {", '-   "a": 1', '+   "a": 1,', '+   "b": 2', "  }"],
    ],
    [
      "objects in lists likewise",
      [{ a: 1 }],
      [{ z: 0, a: 2 }],
      ["  [", "    {", '-     "a": 1', '+     "a": 2', "    }", "  ]"],
    ],
    ["text of several lines", "one\ntwo\nthree", "one\n2\nthree", ["  one", "- two", "+ 2", "  three"]],
  ])("diff %s", (_, expected, actual, lines) => {
    expect(checked(expected, actual)).toEqual(
      ["- expected  + actual", ...lines].map((line) => `diff ${line}`),
    );
  });

  it("are shortened", () => {
    const long = Array.from({ length: 100 }, (_, index) => index);
    expect(checked(long, [])).toHaveLength(2);
    expect(checked("x", "y".repeat(1000))[1]).toMatch(/… \(402 more characters\)$/u);
    const other = long.map((value) => value + 1000);
    expect(checked(long, other).slice(25)).toEqual(["diff   … 178 more lines"]);
  });
});

describe("a diff of lines", () => {
  function show(before: string, after: string): string[] {
    const marks = { same: " ", removed: "-", added: "+", gap: "~" } as const;
    return diffLines(before.split(""), after.split("")).map(({ kind, text }) => marks[kind] + text);
  }

  it.each([
    ["equal texts", "abc", "abc", []],
    ["kept lines that are far away", "abcdefXg", "abcdefYg", ["~…", " e", " f", "-X", "+Y", " g"]],
    ["no gap for a single line", "XabcdeY", "abcde", ["-X", " a", " b", " c", " d", " e", "-Y"]],
    ["two changes apart", "XabcdefY", "abcdef", ["-X", " a", " b", "~…", " e", " f", "-Y"]],
  ])("%s", (_, before, after, expected) => {
    expect(show(before, after)).toEqual(expected);
  });

  it("gives both texts back, however they differ", () => {
    const lines = fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 8 });
    fc.assert(
      fc.property(lines, lines, (before, after) => {
        const diff = diffLines(before, after);
        if (diff.some((line) => line.kind === "gap")) return;
        const take = (other: string): string[] =>
          diff.filter((line) => line.kind !== other).map((line) => line.text);
        if (diff.length === 0) expect(before).toEqual(after);
        else expect([take("added"), take("removed")]).toEqual([before, after]);
      }),
    );
  });

  it("stays quick on long texts that share nothing", () => {
    const before = Array.from({ length: 20_000 }, (_, index) => `a${index}`);
    const after = Array.from({ length: 20_000 }, (_, index) => `b${index}`);
    expect(diffLines(before, after)).toHaveLength(40_000);
  });
});
