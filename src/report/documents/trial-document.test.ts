import { describe, expect, it } from "vitest";
import {
  structuredResult,
  textResult,
  TrialEvents,
  workflowTask,
} from "../../../test/support/trial-events.ts";
import type { JsonObject } from "../../base/json.ts";
import type { EventBody } from "../../model/event.ts";
import { alignCalls } from "./align-calls.ts";
import type { CallItem, TraceItem, TrialDocument } from "./documents.ts";
import { trialDocument } from "./trial-document.ts";

function documentOf(trial: TrialEvents, state: "running" | "ended" = "running"): TrialDocument {
  return trialDocument({
    run: { id: "r", name: "a run", kind: "run", state, startedAt: "2026-11-21T22:45:59.000Z" },
    trajectory: trial.trajectory(workflowTask()),
    invalid: new Map(),
    hashOf: (text) => `${text.length} ${text.slice(-100)}`,
    previous: undefined,
    next: undefined,
    previousOfTask: undefined,
    nextOfTask: undefined,
  });
}

const callsOf = ({ items }: TrialDocument) =>
  items.filter((item): item is TraceItem & CallItem => item.kind === "call");

type Told = Partial<Extract<EventBody, { readonly type: "agent.tool" }>>;

const told = (trial: TrialEvents, callId: string, rest: Told = {}): number =>
  trial.emit({
    type: "agent.tool",
    turn: 0,
    callId,
    name: callId,
    source: "builtin",
    status: "started",
    ...rest,
  });

const judgeCalled = {
  type: "model.called",
  purpose: "judge",
  model: "m",
  durationMs: 90,
  finishReason: "stop",
  usage: { inputTokens: 1, outputTokens: 1 },
} as const;

describe("the items of a trial", () => {
  it("show JSON text that says the same as the structured content once", () => {
    const trial = new TrialEvents().begin("sums", "ada").server("calc", [{ name: "add" }]);
    const sum = { sum: 3, of: [1, 2] };
    const withText = (text: string): JsonObject => ({
      content: [{ type: "text", text }],
      structuredContent: sum,
    });
    trial.call("add", {}, withText('{"of": [1, 2], "sum": 3}'));
    trial.call("add", {}, withText('{"sum": 4}'));
    trial.call("add", {}, withText("3"));
    expect(callsOf(documentOf(trial)).map(({ result }) => result?.pointer)).toEqual([
      "/message/result/structuredContent",
      "/message/result",
      "/message/result",
    ]);
  });

  it("join what an agent reports with what was recorded", () => {
    const trial = new TrialEvents().begin("sums", "ada").server("calc", [{ name: "add" }]);
    const seqs: number[] = [];
    trial.emit({ type: "phase.started", phase: "agent" });
    trial.turn("go", () => {
      seqs.push(told(trial, "c1", { source: "mcp:calc", tool: "add", args: {} }));
      const call = trial.call("add", { a: 1 }, { content: [{ type: "text", text: "1" }] });
      told(trial, "c1", { source: "mcp:calc", tool: "add", args: { a: 1 }, status: "completed" });
      seqs.push(call.request);
      seqs.push(told(trial, "c2", { source: "mcp:calc", tool: "add", args: { a: 2 } }));
      told(trial, "c2", { source: "mcp:calc", tool: "add", status: "completed", result: "two" });
      seqs.push(told(trial, "Bash", { args: { command: "ls" } }));
      told(trial, "Bash", { status: "failed", result: { text: "no" } });
      seqs.push(told(trial, "review", { source: "skill" }));
    });
    const [reported, recorded, unrecorded, bash, skill] = seqs;
    expect(callsOf(documentOf(trial))).toMatchObject([
      { seq: recorded, source: "server", server: "calc", tool: "add", status: "ok", byAgent: true, turn: 0 },
      {
        seq: unrecorded,
        source: "unknown",
        server: "calc",
        tool: "add",
        unrecorded: true,
        status: "ok",
        result: { text: "two" },
      },
      {
        seq: bash,
        source: "builtin",
        tool: "Bash",
        status: "error",
        args: { text: '{\n  "command": "ls"\n}' },
      },
      { seq: skill, source: "skill", tool: "review", status: "pending" },
    ]);
    const shown = documentOf(trial).items.map(({ seq }) => seq);
    expect(shown).not.toContain(reported);
  });

  it("tell what became of a call", () => {
    const trial = new TrialEvents().begin("sums", "ada").server("calc", [{ name: "add" }]);
    trial.turn("go", () => {
      trial.call("add", {}, { content: [], isError: true });
      trial.refuse(trial.request("add", {}), -32602, "no numbers");
      trial.request("add", {});
      trial.reject("nothing", "no server offers it", { a: 1 });
      const { id } = trial.request("add", {});
      trial.emit({ type: "tool.refused", server: "calc", tool: "add", id });
    });
    const calls = callsOf(documentOf(trial, "ended"));
    expect(callsOf(documentOf(trial))[2]).toMatchObject({ status: "pending" });
    expect(callsOf(documentOf(trial))[2]).not.toHaveProperty("error");
    expect(calls.map(({ status, error }) => [status, error])).toEqual([
      ["error", undefined],
      ["error", "no numbers (code -32602)"],
      ["error", "never answered"],
      ["rejected", "no server offers it"],
      ["rejected", "never answered"],
    ]);
    expect(calls[3]).toMatchObject({ args: { text: '{\n  "a": 1\n}', pointer: "/args" } });
  });

  it("name images and sounds in results, and no other data", () => {
    const trial = new TrialEvents().begin("sums", "ada").server("calc", [{ name: "draw" }]);
    const content = [
      { type: "text", text: "a cat" },
      { type: "image", mimeType: "image/svg+xml", data: "AAAA" },
      { type: "audio", mimeType: "audio/wav", data: "BBBBBBBB" },
      { type: "resource", resource: { uri: "cat:", mimeType: "image/png", blob: "CC==" } },
      { type: "image", mimeType: "text/html", data: "DDDD" },
      { type: "image", mimeType: "image/png", data: 5 },
    ];
    let answer = 0;
    trial.turn("go", () => {
      answer = trial.call("draw", {}, { content }).response;
    });
    const [call] = callsOf(documentOf(trial));
    expect(call?.media).toEqual([
      {
        type: "image",
        mimeType: "image/svg+xml",
        length: 4,
        seq: answer,
        pointer: "/message/result/content/1/data",
      },
      {
        type: "audio",
        mimeType: "audio/wav",
        length: 8,
        seq: answer,
        pointer: "/message/result/content/2/data",
      },
      {
        type: "image",
        mimeType: "image/png",
        length: 4,
        seq: answer,
        pointer: "/message/result/content/3/resource/blob",
      },
    ]);
    expect(call?.result).toMatchObject({ type: "json", seq: answer, pointer: "/message/result" });
  });

  it("join requests of servers with answers of clients, and show what fits nothing as a problem", () => {
    const trial = new TrialEvents().begin("sums", "ada").server("calc");
    const message = (direction: "client-to-server" | "server-to-client", json: object): number =>
      trial.emit({ type: "mcp.message", server: "calc", direction, message: { jsonrpc: "2.0", ...json } });
    const asked = message("server-to-client", {
      id: 7,
      method: "elicitation/create",
      params: { message: "Who?" },
    });
    const noted = message("server-to-client", { method: "notifications/message", params: { data: "hm" } });
    const answered = message("client-to-server", { id: 7, result: { action: "decline" } });
    const again = message("client-to-server", { id: 7, result: {} });
    const unasked = message("server-to-client", { id: 99, result: {} });
    const { items } = documentOf(trial);
    const after = items.filter(({ seq }) => seq >= asked);
    expect(after).toMatchObject([
      {
        kind: "request",
        seq: asked,
        endSeq: answered,
        method: "elicitation/create",
        direction: "server-to-client",
        params: { seq: asked },
        result: { seq: answered, pointer: "/message/result" },
      },
      { kind: "request", seq: noted, method: "notifications/message" },
      { kind: "event", seq: again, problem: true },
      { kind: "event", seq: unasked, problem: true },
    ]);
  });

  it("nest steps, and say when each item began", () => {
    const trial = new TrialEvents().begin("sums", "ada").server("calc", [{ name: "add" }]);
    trial.emit({ type: "phase.started", phase: "verify" });
    trial.step("sum", {}, () => trial.call("add", { a: 1 }, { content: [] }));
    trial.wait(100);
    trial.emit(judgeCalled);
    const { items, events } = documentOf(trial);
    const [step] = items.filter(({ kind }) => kind === "step");
    const [call] = items.filter(({ kind }) => kind === "call");
    const [model] = items.filter(({ kind }) => kind === "model");
    expect(step).toMatchObject({ phase: "verify", stepType: expect.any(String) as string });
    expect(call).toMatchObject({
      phase: "verify",
      step: step?.kind === "step" ? step.name : "",
      byAgent: false,
    });
    expect(model?.at).toBe((events.at(-1)?.at ?? 0) - 90);
  });

  it("end with the trial, though a judge is asked later", () => {
    const trial = new TrialEvents().begin("sums", "ada");
    trial.end();
    const finished = documentOf(trial).events.at(-1)?.at;
    trial.wait(1_000_000);
    trial.emit(judgeCalled);
    expect(documentOf(trial).items.at(-1)).toMatchObject({ kind: "model", at: finished });
  });

  it("stay small, whatever a server sends", () => {
    const trial = new TrialEvents().begin("sums", "ada").server("calc", [{ name: "add" }]);
    const text = "<".repeat(50 * 1024 * 1024);
    trial.turn("go", () => {
      trial.call("add", { text }, { content: [{ type: "text", text }] });
      trial.emit({ type: "server.stderr", server: "calc", text });
      for (let index = 0; index < 10_000; index += 1) trial.call("add", { index }, { content: [] });
    });
    const document = documentOf(trial);
    expect(document.events.length).toBeGreaterThan(20_000);
    expect(JSON.stringify(document).length).toBeLessThan(700 * document.events.length);
    expect(callsOf(document)[0]?.result).toMatchObject({ length: text.length, text: "<".repeat(400) });
  });
});

it("tells calls apart whose arguments, results or errors differ behind what the document has of them", () => {
  const long = (end: string, letters = 2000): string => "x".repeat(letters) + end;
  const called = (place: "args" | "text" | "structured" | "error" | "report", end: string): TrialDocument => {
    const trial = new TrialEvents().server("calc", [{ name: "add" }]);
    trial.turn("Add.", () => {
      if (place === "args") trial.call("add", { a: long(end) }, textResult("5"));
      if (place === "text") trial.call("add", {}, textResult(long(end)));
      if (place === "structured") trial.call("add", {}, structuredResult({ sum: long(end) }));
      if (place === "error") trial.refuse(trial.request("add", {}), -32000, long(end));
      if (place === "report") told(trial, "c1", { status: "completed", args: {}, result: long(end) });
    });
    return documentOf(trial, "ended");
  };
  for (const place of ["args", "text", "structured", "error", "report"] as const) {
    const [one, same, other] = [called(place, "1"), called(place, "1"), called(place, "2")];
    expect(alignCalls(one.items, same.items)).toMatchObject([{ relation: "equal" }]);
    const differs = [place === "args" ? "arguments" : "result"];
    expect(alignCalls(one.items, other.items)).toMatchObject([{ relation: "changed", differs }]);
  }
});

it.each([10, 1000])("compares arguments of %i letters whatever the order of their keys", (letters) => {
  const long = "x".repeat(letters);
  const called = (args: JsonObject): readonly TraceItem[] => {
    const trial = new TrialEvents().server("calc", [{ name: "add" }]);
    trial.turn("Add.", () => trial.call("add", args, textResult("5")));
    return documentOf(trial).items;
  };
  const aligned = alignCalls(called({ a: long, b: { c: 1, d: 2 } }), called({ b: { d: 2, c: 1 }, a: long }));
  expect(aligned).toMatchObject([{ relation: "equal" }]);
});
