import { expect, it } from "vitest";
import { collectEvidence } from "../../src/core/report/collect-evidence.ts";
import type { EventBody } from "../../src/core/trace/events.ts";
import { evidenceRows, readEvidence } from "../../src/reporters/format/evidence.ts";
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
