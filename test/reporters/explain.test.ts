import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../../src/core/formats/json.ts";
import { collectEvidence } from "../../src/core/report/trial-result.ts";
import type { EventBody } from "../../src/core/trace/events.ts";
import { checkRows, diffLines, evidenceRows, readEvidence } from "../../src/reporters/explain.ts";
import { grade, request, response, textResult, trialOf, workflow } from "./samples.ts";

/** The rows of grades that cite these events, one string a row, the note in brackets. */
function rowsOf(events: readonly EventBody[], ...citations: number[][]): string[] {
  const task = workflow("any");
  const grades = citations.map((cited) => grade("any", 0, "wrong", cited));
  const { events: stamped, result } = trialOf(task, { events, grades });
  const evidence = readEvidence(collectEvidence(stamped, grades), result, task);
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
    "a call with its result",
    [request(1, "echo", { a: 1 }), response(1, textResult("one\ntwo"))],
    [[2]],
    ['call: echo {"a":1} [event 1, 4 ms]', "result: one⏎two"],
  ],
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
      'structured: {"sum":"five"}',
      "call: add {} [event 3, 4 ms]",
      'result: { "sum": 5 }',
    ],
  ],
  [
    "only the call where only the request is cited",
    [request(1, "echo", {}), response(1, textResult("one"))],
    [[1]],
    ["call: echo {} [event 1, 4 ms]"],
  ],
  [
    "the answer once the call was shown for another grade",
    [request(1, "echo", {}), response(1, textResult("one"))],
    [[1], [2], [2]],
    ["call: echo {} [event 1, 4 ms]", "result: one"],
  ],
  [
    "a protocol error",
    [request(1, "weather", {}), failed],
    [[2]],
    ["call: weather {} [event 1, 4 ms]", "error: no such city (code -32602)"],
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
    "a result without text",
    [request(1, "image", {}), response(1, { content: [{ type: "image", data: "AAAA" }] })],
    [[2]],
    ["call: image {} [event 1, 4 ms]", 'result: {"content":[{"type":"image","data":"AAAA"}]}'],
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
  [
    "nothing for events that say nothing by themselves",
    [{ type: "phase.started", phase: "agent" }],
    [[1]],
    [],
  ],
])("shows %s", (_, events, citations, expected) => {
  expect(rowsOf(events, ...citations)).toEqual(expected);
});

it("shows the first of many events and counts the others", () => {
  const events = Array.from({ length: 30 }, (_, index) => request(index, `tool-${index}`, {}));
  const rows = rowsOf(
    events,
    events.map((_, index) => index + 1),
  );
  expect(rows).toHaveLength(9);
  expect(rows.at(-1)).toBe(": … and 22 more events");
});

it("shortens what is long", () => {
  const rows = rowsOf(
    [request(1, "echo", { text: "x".repeat(500) }), response(1, textResult("y\n".repeat(50)))],
    [2],
  );
  expect(rows[0]).toMatch(/… \(211 more characters\) \[event 1, 4 ms\]$/u);
  expect(rows[1]).toBe(`result: ${"y⏎".repeat(8)}… 42 lines more`);
});

it("says nothing of evidence that is not there", () => {
  expect(rowsOf([], [1, 2, 3])).toEqual([]);
});

describe("the rows of a check", () => {
  function checked(expected: Json, actual: Json, message = "differs", name = "result"): string[] {
    const check = { name, passed: false, expected, actual, message };
    return checkRows(check, message).flatMap(({ label, pieces }) =>
      pieces.map(({ text }) => `${label} ${text}`),
    );
  }

  it("shows single values side by side", () => {
    expect(checked("sunny", "it rains")).toEqual(['expected "sunny"', 'actual "it rains"']);
  });

  it("does not repeat what the reason states, but is not fooled by parts of words", () => {
    expect(checked(6, 5, "the number found is 5, expected 6")).toEqual([]);
    expect(checked(6, 5, "the number found is 15, expected 6.5")).toEqual(["expected 6", "actual 5"]);
  });

  it("does not quote our own words, as it does data", () => {
    const rows = (name: string, expected: Json, actual: Json) => checked(expected, actual, "told", name);
    expect(rows("exists", "a file", "nothing")).toEqual(["expected a file", "actual nothing"]);
    expect(rows("call", "a result", "it broke")).toEqual(["expected a result", 'actual "it broke"']);
    expect(rows("body equals", "a file", "nothing")).toEqual(['expected "a file"', 'actual "nothing"']);
  });

  it("diffs objects in the order of the expected keys, without those nobody asked about", () => {
    expect(checked({ a: 1, b: { c: 2 } }, { z: 0, b: { d: 1, c: 3 }, a: 1 })).toEqual([
      "diff - expected  + actual",
      "diff   {",
      'diff     "a": 1,',
      'diff     "b": {',
      'diff -     "c": 2',
      'diff +     "c": 3',
      "diff     }",
      "diff   }",
    ]);
  });

  it("keeps every key where exactly this value was expected", () => {
    expect(checked({ $equals: { a: 1 } }, { a: 1, b: 2 })).toEqual([
      "diff - expected  + actual",
      "diff   {",
      'diff -   "a": 1',
      'diff +   "a": 1,',
      'diff +   "b": 2',
      "diff   }",
    ]);
  });

  it("diffs text of several lines", () => {
    expect(checked("one\ntwo\nthree", "one\n2\nthree")).toEqual([
      "diff - expected  + actual",
      "diff   one",
      "diff - two",
      "diff + 2",
      "diff   three",
    ]);
  });

  it("shortens large values and long diffs", () => {
    const long = Array.from({ length: 100 }, (_, index) => index);
    const rows = checked(long, []);
    expect(rows).toHaveLength(2);
    expect(checked("x", "y".repeat(1000))[1]).toMatch(/… \(402 more characters\)$/u);
    const diff = checked(
      long,
      long.map((value) => value + 1000),
    );
    expect(diff).toHaveLength(26);
    expect(diff.at(-1)).toBe("diff   … 178 more lines");
  });
});

describe("a diff of lines", () => {
  function show(before: string, after: string): string[] {
    const marks = { same: " ", removed: "-", added: "+", gap: "~" } as const;
    return diffLines(before.split(""), after.split("")).map(({ kind, text }) => marks[kind] + text);
  }

  it.each([
    ["equal texts", "abc", "abc", []],
    ["a changed line", "abc", "axc", [" a", "-b", "+x", " c"]],
    ["an added line", "ac", "abc", [" a", "+b", " c"]],
    ["a removed line", "abc", "ac", [" a", "-b", " c"]],
    ["kept lines that are far away", "abcdefXg", "abcdefYg", ["~…", " e", " f", "-X", "+Y", " g"]],
    ["no gap for a single line", "XabcdeY", "abcde", ["-X", " a", " b", " c", " d", " e", "-Y"]],
    ["two changes apart", "XabcdefY", "abcdef", ["-X", " a", " b", "~…", " e", " f", "-Y"]],
    ["moved lines, matched as long as possible", "abcd", "bcda", ["-a", " b", " c", " d", "+a"]],
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
