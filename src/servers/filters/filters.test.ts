import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import * as fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Fault, ServerSpec } from "../../model/server.ts";
import type { JsonObject } from "../../base/json.ts";
import type { EventBody } from "../../model/event.ts";
import { wireMessage } from "../messages/json-rpc.ts";
import { FilterChain, type FilterDecision } from "./filter-chain.ts";
import {
  createFilters,
  type FiltersOptions,
  nameMatcher,
  randomSequence,
  SharedRateLimiter,
  OwnRateLimiter,
  truncateResult,
} from "./filters.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

type Rules = Pick<ServerSpec, "tools" | "rateLimit" | "faults">;

const rpc = { jsonrpc: "2.0" } as const;

const specOf = (rules: Rules): ServerSpec => ({
  transport: "shttp",
  url: "http://127.0.0.1:1/mcp",
  headers: {},
  startupTimeoutMs: 1000,
  maxMessageBytes: 1000,
  ...rules,
});

const ask = (id: number | string, method: string, params?: JsonObject): JSONRPCMessage => ({
  ...rpc,
  id,
  method,
  ...(params === undefined ? {} : { params: { ...params } }),
});
const call = (id: number | string, name = "echo"): JSONRPCMessage =>
  ask(id, "tools/call", { name, arguments: {} });
const result = (id: number | string, value: JsonObject): JSONRPCMessage => ({ ...rpc, id, result: value });
const error = (id: number | string, code: number, message: string): JSONRPCMessage => ({
  ...rpc,
  id,
  error: { code, message },
});
const held = (id: number, heldMs: number): EventBody => ({ type: "request.held", server: "s", id, heldMs });
const text = (value: string): JsonObject => ({ content: [{ type: "text", text: value }] });

/** One connection with the filters of some rules, and what came of everything. */
function connect(make: ReturnType<typeof createFilters>, client?: string) {
  const events: EventBody[] = [];
  const emit = (event: EventBody): number => events.push(event);
  const run = new FilterChain(make.of({ server: "s", emit, ...(client === undefined ? {} : { client }) }));
  const toServer: JSONRPCMessage[] = [];
  const toClient: JSONRPCMessage[] = [];
  const ends: string[] = [];
  const deliver =
    (passed: JSONRPCMessage[]) =>
    (decision: FilterDecision): void => {
      if (decision.kind === "pass") passed.push(decision.wire.message);
      else if (decision.kind === "answer") toClient.push(decision.wire.message);
      else ends.push(decision.kind);
    };
  const say = (message: JSONRPCMessage): Promise<void> =>
    run.fromClient(wireMessage(message), deliver(toServer));
  const hear = (message: JSONRPCMessage): Promise<void> =>
    run.fromServer(wireMessage(message), deliver(toClient));
  return { events, toServer, toClient, ends, run, say, hear };
}

const filtered = (rules: Rules, options: Partial<FiltersOptions> = {}) => {
  const limiter = rules.rateLimit && new OwnRateLimiter(rules.rateLimit);
  return connect(createFilters(specOf(rules), { seed: "0", limiter, ...options }));
};

it("hides tools in answers of tools/list only, and keeps the rest of the answer", async () => {
  const { say, hear, toClient, events } = filtered({ tools: ["read*"] });
  const tools = [{ name: "read_file", x: 1 }, { name: "write" }, { name: "delete" }, { odd: true }, 5];
  const page = { tools, nextCursor: "2", _meta: { a: 1 }, ttlMs: 0 };
  await say(ask(1, "tools/list"));
  await say(ask(2, "other/list"));
  await hear(result(2, page));
  await hear(result(1, page));
  await hear(result(1, page));
  expect(toClient).toEqual([
    result(2, page),
    result(1, { ...page, tools: [{ name: "read_file", x: 1 }, { odd: true }, 5] }),
    result(1, page),
  ]);
  expect(events).toEqual([{ type: "tools.hidden", server: "s", tools: ["write", "delete"] }]);
});

it("leaves a listing unchanged that hides nothing or is an error", async () => {
  const { say, hear, toClient, events } = filtered({ tools: ["*"] });
  await say(ask(1, "tools/list"));
  await hear(result(1, { tools: [{ name: "a" }] }));
  await say(ask(2, "tools/list"));
  await hear(error(2, -1, "no"));
  expect(toClient).toEqual([result(1, { tools: [{ name: "a" }] }), error(2, -1, "no")]);
  expect(events).toEqual([]);
});

it("answers calls of tools that are not allowed, and does not pass them on", async () => {
  const make = createFilters(specOf({ tools: ["echo"] }), { seed: "0" });
  const { say, toServer, toClient, events } = connect(make, "2");
  await say(call("a", "delete"));
  await say(call("b", "echo"));
  await say({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "a" } });
  expect(toServer).toEqual([call("b", "echo")]);
  const refusal = "Unknown tool: delete (it is not among the tools that are allowed here)";
  expect(toClient).toEqual([error("a", -32602, refusal)]);
  expect(events).toEqual([{ type: "tool.refused", server: "s", client: "2", tool: "delete", id: "a" }]);
});

it("holds requests over the limit, all of them and nothing else, and records how long", async () => {
  const { say, toServer, events } = filtered({ rateLimit: { requests: 1, perMs: 100 } });
  await say(ask(1, "initialize"));
  await say(result(9, {}));
  void say(ask(2, "tools/list"));
  void say(call(3));
  expect(toServer).toEqual([ask(1, "initialize"), result(9, {})]);
  await vi.advanceTimersByTimeAsync(200);
  expect(toServer.slice(2)).toEqual([ask(2, "tools/list"), call(3)]);
  expect(events).toEqual([held(2, 100), held(3, 200)]);
});

it("never sends a held request that is cancelled, and gives its place to the next", async () => {
  const { say, toServer, events, ends } = filtered({ rateLimit: { requests: 1, perMs: 100 } });
  await say(call(1));
  void say(call(2));
  void say(call(3));
  await vi.advanceTimersByTimeAsync(40);
  void say({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 2 } });
  await vi.advanceTimersByTimeAsync(60);
  expect(toServer).toEqual([call(1), call(3)]);
  expect(ends).toEqual(["drop", "drop"]);
  expect(events).toEqual([held(2, 40), held(3, 100)]);
});

it("records the delay of a cancelled request", async () => {
  const { say, toServer, events } = filtered({ faults: [{ kind: "delay", probability: 1, ms: 100 }] });
  void say(call(1));
  await vi.advanceTimersByTimeAsync(40);
  await say({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } });
  await vi.advanceTimersByTimeAsync(100);
  expect(toServer).toEqual([]);
  expect(events.at(-1)).toEqual(held(1, 40));
});

it("limits trials that share a server together", async () => {
  const spec = specOf({});
  const limiter = new OwnRateLimiter({ requests: 1, perMs: 100 });
  const [one, other] = [1, 2].map((seed) => connect(createFilters(spec, { seed: `${seed}`, limiter })));
  await one?.say(call(1));
  void other?.say(call(1));
  expect(other?.toServer).toEqual([]);
  await vi.advanceTimersByTimeAsync(100);
  expect(other?.toServer).toEqual([call(1)]);
});

it("leaves no timer when a connection ends", async () => {
  const rules: Rules = {
    rateLimit: { requests: 1, perMs: 60_000 },
    faults: [{ kind: "delay", ms: 60_000, tool: "slow", probability: 1 }],
  };
  const { say, run, ends, events } = filtered(rules);
  await say(call(1));
  void say(call(2));
  void say(call(3, "slow"));
  expect(vi.getTimerCount()).toBe(2);
  run.close();
  expect(vi.getTimerCount()).toBe(0);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ends).toEqual(["drop", "drop"]);
  expect(events.filter(({ type }) => type === "request.held")).toEqual([]);
});

it("injects each kind of fault, and records it when it happens", async () => {
  const faults: Fault[] = [
    { kind: "delay", ms: 50, tool: "slow", probability: 1 },
    { kind: "drop", tool: "lost", probability: 1 },
    { kind: "error", tool: "broken", probability: 1 },
    { kind: "error", tool: "teapot", probability: 1, code: 418, message: "short and stout" },
    { kind: "disconnect", method: "resources/read", probability: 1 },
    { kind: "truncate", tool: "wordy", bytes: 3, probability: 1 },
  ];
  const { say, hear, toServer, toClient, ends, events } = filtered({ faults });
  void say(call(1, "slow"));
  await say(call(2, "lost"));
  await say(call(3, "broken"));
  await say(call(4, "teapot"));
  await say(call(5, "wordy"));
  expect(toServer).toEqual([call(5, "wordy")]);
  await hear(result(5, text("abcdef")));
  await vi.advanceTimersByTimeAsync(50);
  await say(ask(6, "resources/read"));
  expect(toServer).toEqual([call(5, "wordy"), call(1, "slow")]);
  const message = "injected fault: this error was made on purpose, the server never got the request";
  expect(toClient).toEqual([
    error(3, -32603, message),
    error(4, 418, "short and stout"),
    result(5, text("abc")),
  ]);
  expect(ends).toEqual(["drop", "disconnect"]);
  const fault = { type: "fault.injected", server: "s", method: "tools/call" };
  expect(events).toEqual([
    { ...fault, fault: "delay", tool: "slow", id: 1 },
    { ...fault, fault: "drop", tool: "lost", id: 2 },
    { ...fault, fault: "error", tool: "broken", id: 3 },
    { ...fault, fault: "error", tool: "teapot", id: 4 },
    { ...fault, fault: "truncate", tool: "wordy", id: 5 },
    held(1, 50),
    { ...fault, fault: "disconnect", method: "resources/read", id: 6 },
  ]);
});

it("applies several faults to one request, in order", async () => {
  const faults: Fault[] = [
    { kind: "delay", ms: 10, probability: 1 },
    { kind: "error", probability: 1 },
    { kind: "drop", probability: 1, times: 1 },
  ];
  const { say, toClient, events } = filtered({ faults });
  void say(call(1));
  expect(toClient).toEqual([]);
  await vi.advanceTimersByTimeAsync(10);
  expect(toClient).toHaveLength(1);
  const kinds = events.map((event) => ("fault" in event ? event.fault : event.type));
  expect(kinds).toEqual(["delay", "request.held", "error"]);
});

it("counts a fault over all connections of a trial; truncating nothing does not count", async () => {
  const faults: Fault[] = [{ kind: "truncate", bytes: 3, probability: 1, times: 1 }];
  const make = createFilters(specOf({ faults }), { seed: "0" });
  const [one, other] = [connect(make, "1"), connect(make, "2")];
  await one.say(call(1));
  await one.hear(result(1, text("abc")));
  await other.say(call(1));
  await other.hear(result(1, text("abcd")));
  await one.say(call(2));
  await one.hear(result(2, text("abcd")));
  expect([...one.toClient, ...other.toClient]).toEqual([
    result(1, text("abc")),
    result(2, text("abcd")),
    result(1, text("abc")),
  ]);
  const again = connect(createFilters(specOf({ faults }), { seed: "0" }));
  await again.say(call(1));
  await again.hear(result(1, text("abcd")));
  expect(again.toClient).toEqual([result(1, text("abc"))]);
});

/** Ids of the requests that got an error. */
const idsWithError = async (seed: string, tools: readonly string[], faults: Fault[]): Promise<unknown[]> => {
  const { say, events } = filtered({ faults }, { seed });
  for (const [id, tool] of tools.entries()) await say(call(id, tool));
  return events.flatMap((event) => (event.type === "fault.injected" ? [event.id] : []));
};

it("applies the same faults to the same calls, whatever else is called", async () => {
  const faults: Fault[] = [{ kind: "error", tool: "a", probability: 0.5 }];
  await fc.assert(
    fc.asyncProperty(
      fc.string(),
      fc.array(fc.constantFrom("a", "b"), { maxLength: 40 }),
      async (seed, tools) => {
        const all = await idsWithError(seed, tools, faults);
        expect(await idsWithError(seed, tools, faults)).toEqual(all);
        const onlyA = tools.flatMap((tool, id) => (tool === "a" ? [id] : []));
        const alone = await idsWithError(
          seed,
          Array.from(onlyA, () => "a"),
          faults,
        );
        expect(alone.map((id) => onlyA[Number(id)])).toEqual(all);
      },
    ),
  );
});

it("draws for each fault by itself", async () => {
  const delay: Fault = { kind: "delay", ms: 0, probability: 0.5 };
  const { say, events } = filtered({ faults: [delay, delay] });
  const all = Promise.all(Array.from({ length: 50 }, (_, id) => say(call(id))));
  await vi.advanceTimersByTimeAsync(1);
  await all;
  const ids = events.flatMap((event) => (event.type === "fault.injected" ? [event.id] : []));
  const times = Array.from({ length: 50 }, (_, id) => ids.filter((each) => each === id).length);
  expect(new Set(times)).toEqual(new Set([0, 1, 2]));
});

it("happens about as often as its probability says: always at 1, never at 0", async () => {
  const many = Array.from({ length: 2000 }, () => "a");
  expect(await idsWithError("x", many, [{ kind: "error", probability: 1 }])).toHaveLength(2000);
  expect(await idsWithError("x", many, [{ kind: "error", probability: 0 }])).toEqual([]);
  const some = (await idsWithError("x", many, [{ kind: "error", probability: 0.25 }])).length;
  expect(some).toBeGreaterThan(400);
  expect(some).toBeLessThan(600);
  expect(await idsWithError("x", many, [{ kind: "error", probability: 0.25, times: 3 }])).toHaveLength(3);
});

it("passes on unknown messages unchanged; a call without an id does not bypass the allow-list", async () => {
  const { say, hear, toServer, toClient, ends, events } = filtered({
    tools: ["echo"],
    rateLimit: { requests: 1000, perMs: 1 },
    faults: [{ kind: "drop", probability: 1 }],
  });
  const odd = [
    { jsonrpc: "2.0", id: 1, method: "of/the/future", params: { name: "x" } },
    { jsonrpc: "2.0", id: 2, method: "tools/call", params: 5 },
    { jsonrpc: "2.0", id: null, method: "tools/call", params: { name: "other" } },
    { jsonrpc: "2.0", method: "tools/call", params: { name: "other" } },
    { jsonrpc: "2.0", id: 3, result: 5 },
    { jsonrpc: "2.0", id: 4, error: "odd" },
  ] as unknown as JSONRPCMessage[];
  const dropped = odd.slice(1, 4);
  const passing = odd.filter((message) => !dropped.includes(message));
  for (const message of odd) await say(message);
  for (const message of odd) await hear(message);
  expect(toServer).toEqual(passing);
  expect(ends).toEqual(["drop", "drop", "drop"]);
  expect(toClient).toEqual(odd);
  expect(events).toEqual([
    { type: "fault.injected", server: "s", fault: "drop", method: "tools/call", id: 2 },
  ]);
});

it("reports faults that no request has met, and names of an allow-list that match no tool", async () => {
  const faults: Fault[] = [
    { kind: "error", tool: "nxt", probability: 1 },
    { kind: "drop", tool: "a", probability: 0 },
    { kind: "delay", method: "ping", ms: 0, probability: 1 },
  ];
  const make = createFilters(specOf({ faults, tools: ["a", "ecko", "b*"] }), { seed: "0" });
  expect(make.unmetFaults()).toEqual([]);
  const { say, hear, events } = connect(make);
  await say(call(1, "a"));
  expect(make.unmetFaults()).toEqual([faults[0], faults[2]]);
  await say(ask(2, "tools/list"));
  await hear(result(2, { tools: [{ name: "b1" }], nextCursor: "more" }));
  await say(ask(3, "tools/list"));
  await hear(result(3, { tools: [{ name: "a" }] }));
  expect(events).toEqual([{ type: "tools.hidden", server: "s", tools: [], unmatched: ["ecko"] }]);
});

const names = ["read", "read_file", "write_file", "files/read", ".hidden", "Read", "!read", "a(b)[c]", "#x"];

it.each([
  ["read", ["read"]],
  ["read*", ["read", "read_file"]],
  ["*", names],
  ["files/*", ["files/read"]],
  ["{read,write}_file", ["read_file", "write_file"]],
  ["?ead", ["read", "Read"]],
  ["!read", ["!read"]],
  ["a(b)[c]", ["a(b)[c]"]],
  ["#x", ["#x"]],
  ["", [""]],
])("matches names that are the pattern, or match it as a glob: %j", (pattern, matching) => {
  expect([...names, ""].filter(nameMatcher(pattern))).toEqual(matching);
});

it("gives fixed numbers for a seed", () => {
  const next = randomSequence("seed");
  expect([next(), next(), next()]).toEqual([0.5276006809435785, 0.45600148756057024, 0.6399091784842312]);
});

it.each([
  ["añb", 2, "a"],
  ["añb", 3, "añ"],
  ["😀😀", 7, "😀"],
  ["abc", 0, ""],
])("truncates %s to %i bytes, at the last whole character that fits", (long, bytes, short) => {
  expect(truncateResult(text(long), bytes)).toEqual(text(short));
});

it("truncates every text that a model reads, and leaves out the structured content", () => {
  const result = {
    content: [
      { type: "text", text: "abcdef", annotations: { audience: ["user"] } },
      { type: "image", data: "abcdef", mimeType: "image/png" },
      { type: "resource", resource: { uri: "text:abcdef", text: "abcdef" } },
      { type: "text", text: "ab" },
    ],
    structuredContent: { text: "abcdef" },
    isError: false,
    _meta: { text: "abcdef" },
  };
  expect(truncateResult(result, 3)).toEqual({
    content: [
      { type: "text", text: "abc", annotations: { audience: ["user"] } },
      { type: "image", data: "abcdef", mimeType: "image/png" },
      { type: "resource", resource: { uri: "text:abcdef", text: "abc" } },
      { type: "text", text: "ab" },
    ],
    isError: false,
    _meta: { text: "abcdef" },
  });
  expect(truncateResult({ contents: [{ uri: "x:", text: "abcd" }] }, 1)).toEqual({
    contents: [{ uri: "x:", text: "a" }],
  });
  const messages = [{ role: "user", content: { type: "text", text: "abcd" } }];
  expect(truncateResult({ messages }, 1)).toEqual({
    messages: [{ role: "user", content: { type: "text", text: "a" } }],
  });
});

it("gives undefined when no text is longer", () => {
  const result = { content: [{ type: "text", text: "abc" }], structuredContent: { a: 1 } };
  expect(truncateResult(result, 3)).toBeUndefined();
  expect(truncateResult({ tools: [{ name: "a", text: "long text" }] }, 3)).toBeUndefined();
});

const never = new AbortController().signal;

it("forgets aborted requests, and keeps no timer when none waits", async () => {
  const limiter = new OwnRateLimiter({ requests: 1, perMs: 100 });
  expect(limiter.pass(never)).toBeUndefined();
  const [first, second] = [new AbortController(), new AbortController()];
  const waiting = [first, second].map(({ signal }) => limiter.pass(signal));
  const reason = new Error("no longer");
  first.abort(reason);
  await expect(waiting[0]).rejects.toBe(reason);
  expect(vi.getTimerCount()).toBe(1);
  second.abort(reason);
  await expect(waiting[1]).rejects.toBe(reason);
  expect(vi.getTimerCount()).toBe(0);
  expect(() => limiter.pass(second.signal)).toThrow(reason);
  await vi.advanceTimersByTimeAsync(100);
  expect(limiter.pass(never)).toBeUndefined();
});

it("never exceeds the limit in any span, keeps the order, and holds no request longer than needed", async () => {
  const cases = fc.record({
    requests: fc.integer({ min: 1, max: 5 }),
    perMs: fc.integer({ min: 1, max: 50 }),
    gaps: fc.array(fc.nat(30), { maxLength: 40 }),
  });
  await fc.assert(
    fc.asyncProperty(cases, async ({ requests, perMs, gaps }) => {
      const limiter = new OwnRateLimiter({ requests, perMs });
      const passed: { index: number; at: number }[] = [];
      const came: number[] = [];
      for (const [index, gap] of gaps.entries()) {
        await vi.advanceTimersByTimeAsync(gap);
        came.push(performance.now());
        const passing = limiter.pass(never);
        const note = (): void => void passed.push({ index, at: performance.now() });
        if (passing === undefined) note();
        else void passing.then(note);
      }
      await vi.advanceTimersByTimeAsync(gaps.length * perMs + 1);
      expect(passed.map(({ index }) => index)).toEqual(gaps.map((_, index) => index));
      for (const [index, { at }] of passed.entries()) {
        const before = passed[index - requests];
        const soonest = Math.max(came[index] ?? 0, before === undefined ? 0 : before.at + perMs);
        expect(Math.abs(at - soonest)).toBeLessThanOrEqual(1);
        if (before !== undefined) expect(at - before.at).toBeGreaterThanOrEqual(perMs);
      }
      expect(vi.getTimerCount()).toBe(0);
    }),
    { numRuns: 50 },
  );
});

it("uses the slots that it gets in order, none too late, and asks for longer ones when all came too late", async () => {
  const asked: (readonly [count: number, validMs: number])[] = [];
  const slots = [
    [100, 150],
    [0, 50],
    [10, 20],
  ].map(([from = 0, until = 0]) => ({ from: performance.now() + from, until: performance.now() + until }));
  const limiter = new SharedRateLimiter(async (count, validMs) => {
    asked.push([count, validMs]);
    const next = slots.shift();
    if (next === undefined) throw new Error("no more");
    return [next];
  });
  const [aborted, passed] = [new AbortController(), [] as number[]];
  const leaving = limiter.pass(aborted.signal);
  const passing = [1, 2].map((number) => limiter.pass(never).then(() => passed.push(number)));
  aborted.abort(new Error("no longer"));
  await expect(leaving).rejects.toThrow("no longer");
  await vi.advanceTimersByTimeAsync(99);
  expect(passed).toEqual([]);
  const failed = expect(passing[1]).rejects.toThrow("no more");
  await vi.advanceTimersByTimeAsync(1);
  await failed;
  expect([passed, asked, vi.getTimerCount()]).toEqual([
    [1],
    [
      [1, 50],
      [1, 50],
      [1, 100],
      [1, 200],
    ],
    0,
  ]);
});
