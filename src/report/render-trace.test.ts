import { expect, it } from "vitest";
import { check, textResult, TrialEvents } from "../../test/support/trial-events.ts";
import type { JsonObject } from "../base/json.ts";
import { renderTrace } from "./render-trace.ts";
import { describeInput } from "../model/step.ts";

it("shows a trial, one line an event", () => {
  const trial = new TrialEvents().begin("sums", "claude").server("calc", [{ name: "add" }]);
  trial.turn("Add 2 and 3.", () => {
    trial.call("add", { a: 2, b: 3 }, textResult("5"));
    trial.refuse(trial.request("sub", {}), -32602, "Unknown tool");
    trial.say("5.");
  });
  trial.step("call", { checks: [check("result", true)] });
  trial.emit({ type: "server.stderr", server: "calc", text: "warning\n" });
  trial.emit({ type: "server.invalid_output", server: "calc", text: "hello" });
  trial.wait(1233.96).end();
  expect(renderTrace(trial.events)).toEqual([
    ' 1       0.0 ms  trial.started task="sums" agent="claude" attempt=1',
    ' 2       1.0 ms  server.started server="calc" transport="stdio" target="node calc.js" pid=4711',
    ' 3       2.0 ms  → calc #0 initialize {"protocolVersion":"2025-11-25","capabilities":{}}',
    ' 4       3.0 ms  ← calc #0 result {"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"calc","version":"1.0.0"}}',
    " 5       4.0 ms  → calc notifications/initialized",
    " 6       5.0 ms  → calc #1 tools/list {}",
    ' 7       6.0 ms  ← calc #1 result {"tools":[{"inputSchema":{"type":"object"},"name":"add"}]}',
    ' 8       7.0 ms  server.ready server="calc" name="calc" version="1.0.0" protocolVersion="2025-11-25" tools=1 durationMs=4',
    " 9       8.0 ms  user: Add 2 and 3.",
    '10       9.0 ms  → calc #2 tools/call {"name":"add","arguments":{"a":2,"b":3}}',
    '11      10.0 ms  ← calc #2 result {"content":[{"type":"text","text":"5"}]}',
    '12      11.0 ms  → calc #3 tools/call {"name":"sub","arguments":{}}',
    '13      12.0 ms  ← calc #3 error {"code":-32602,"message":"Unknown tool"}',
    "14      13.0 ms  assistant: 5.",
    '15      14.0 ms  turn.finished turn=0 reason="done"',
    "16      15.0 ms  verify: call begins (mcp)",
    "17      16.0 ms  verify: call passed (3 ms): ✓ result: as expected",
    String.raw`18      17.0 ms  calc stderr: warning\n`,
    "19      18.0 ms  calc stdout, not MCP: hello",
    '20    1253.0 ms  trial.finished outcome="completed" durationMs=1252.0',
  ]);
});

it("shows what extensions do, one line an event", () => {
  const trial = new TrialEvents();
  const extension = "k8s";
  trial.emit({
    type: "extension.started",
    extension,
    package: "github.com/o/k8s@v1",
    version: "v1.2.0",
    protocol: "json-rpc",
    sandbox: "process",
    pid: 7,
  });
  trial.emit({
    type: "extension.started",
    extension,
    package: "./k8s",
    protocol: "one-shot",
    sandbox: "none",
    pid: 8,
  });
  trial.emit({ type: "extension.log", extension, level: "warn", message: "slow", data: { ms: 3 } });
  trial.emit({ type: "extension.log", extension, level: "info", message: "plain" });
  trial.emit({ type: "extension.stderr", extension, text: "two\nlines\n" });
  trial.emit({ type: "extension.invalid_output", extension, text: "Listening" });
  trial.emit({ type: "extension.output_omitted", extension, stream: "log", count: 12 });
  trial.emit({ type: "extension.exited", extension, exitCode: 1, signal: null, expected: false });
  expect(renderTrace(trial.events).map((line) => line.slice(line.indexOf("ms  ") + 4))).toEqual([
    "k8s started: github.com/o/k8s@v1 (v1.2.0), json-rpc, sandbox process, pid 7",
    "k8s started: ./k8s, one-shot, sandbox none, pid 8",
    'k8s warn: slow {"ms":3}',
    "k8s info: plain",
    String.raw`k8s stderr: two\nlines\n`,
    "k8s stdout, no message: Listening",
    'extension.output_omitted extension="k8s" stream="log" count=12',
    'extension.exited extension="k8s" exitCode=1 signal=null expected=false',
  ]);
});

it("shows steps with what they work with, what they found and gave, and how it was graded", () => {
  const trial = new TrialEvents();
  const place = { phase: "verify", step: "hosts[1]/up", parent: "hosts[1]", attempt: 2 } as const;
  trial.emit({
    type: "step.started",
    phase: "verify",
    step: "hosts",
    stepType: "foreach",
    attempt: 1,
    input: { var: "host", in: ["a", "b"] },
  });
  trial.emit({
    type: "step.started",
    stepType: "http",
    ...place,
    name: "is up",
    input: { method: "GET", url: "http://b/" },
  });
  trial.emit({
    type: "step.finished",
    ...place,
    outcome: "failed",
    checks: [check("status", false, "it is 503"), check("body", true, "it is empty")],
    outputs: { body: "" },
    durationMs: 4.25,
    ignored: true,
  });
  trial.emit({
    type: "trial.graded",
    verdict: "fail",
    score: 0,
    grades: [{ grader: "verify-steps", verdict: "fail", score: 0, reason: "no", evidence: [] }],
  });
  expect(renderTrace(trial.events).map((line) => line.slice(16))).toEqual([
    'verify: hosts begins (foreach): host in ["a","b"]',
    'verify: hosts (host="b") › is up begins (http, attempt 2): GET http://b/',
    'verify: hosts (host="b") › is up failed (4.3 ms, attempt 2, changes no verdict): ✗ status: it is 503; ✓ body: it is empty; body = ""',
    "graded fail: verify-steps fail: no",
  ]);
});

it("cuts long texts, never in the middle of a character", () => {
  const trial = new TrialEvents();
  trial.say("x".repeat(1000));
  trial.say(`${"x".repeat(399)}𝕏𝕏`);
  expect(renderTrace(trial.events)).toEqual([
    `1       0.0 ms  assistant: ${"x".repeat(400)}…`,
    `2       1.0 ms  assistant: ${"x".repeat(399)}…`,
  ]);
});

it("writes out what would drive the reader's terminal", () => {
  const trial = new TrialEvents();
  trial.say("\u001b[2J\u009b2J\u007f\u202e");
  trial.call("\u001b]0;title\u0007", {}, { content: [], "\u009b": "\u0085" });
  const lines = renderTrace(trial.events).join("\n");
  expect(lines).toContain(String.raw`assistant: \x1b[2J\x9b2J\x7f\u202e`);
  // oxlint-disable-next-line no-control-regex
  expect(lines).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/u);
});

it("shows messages of any shape", () => {
  const trial = new TrialEvents();
  const server = "s";
  trial.emit({ type: "mcp.message", server, direction: "client-to-server", message: [1, 2] });
  trial.emit({ type: "mcp.message", server, direction: "server-to-client", message: null });
  trial.emit({ type: "mcp.message", server, direction: "server-to-client", message: {} });
  trial.emit({
    type: "mcp.message",
    server,
    direction: "server-to-client",
    message: { id: "a", error: null },
  });
  expect(renderTrace(trial.events).map((line) => line.slice(16))).toEqual([
    "→ s [1,2]",
    "← s null",
    "← s result",
    '← s #"a" error null',
  ]);
});

it.each<[string, JsonObject, string]>([
  ["command", { run: "make\n  test\n", env: { A: "1" } }, "$ make ⏎ test ⏎"],
  ["http", { method: "POST", url: "http://127.0.0.1/a", headers: {} }, "POST http://127.0.0.1/a"],
  ["file", { path: "a.txt" }, "a.txt"],
  ["file", { path: "a.txt", action: { kind: "create", content: "x" } }, "create a.txt"],
  ["script", { file: "check.sh", args: ["--all", "x"] }, "check.sh --all x"],
  ["script", { source: { inline: "#!/bin/sh\nexit 1" } }, "#!/bin/sh ⏎ exit 1"],
  ["mcp", { tool: "add", args: { a: 1 } }, 'add {"a":1}'],
  ["mcp", { server: "calc", tool: "add", args: {} }, "calc: add {}"],
  ["mcp", { uri: "file:///a" }, "read file:///a"],
  ["mcp", { prompt: "greet", args: {} }, "prompt greet {}"],
  ["extension", { extension: "k8s", operation: "apply", args: { n: 1 } }, 'k8s.apply {"n":1}'],
  ["foreach", { var: "host", in: ["a", "b"] }, 'host in ["a","b"]'],
  ["anyOf", { steps: 2 }, ""],
  ["llm", { contains: "ready" }, 'contains "ready"'],
  ["command", { if: "{env.CI}" }, "if {env.CI}"],
  ["command", {}, ""],
])("shows what a step of type %s works with: %j", (stepType, input, line) => {
  expect(describeInput(stepType, input)).toBe(line);
});
