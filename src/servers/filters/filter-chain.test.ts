import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { type WireMessage, wireMessage } from "../messages/json-rpc.ts";
import { type Filter, FilterChain, type FilterDecision } from "./filter-chain.ts";

const request = (id: number, method = "tools/call"): JSONRPCMessage => ({ jsonrpc: "2.0", id, method });
const notification = (method: string, params = {}): JSONRPCMessage => ({ jsonrpc: "2.0", method, params });
const answer = (id: number): JSONRPCMessage => ({ jsonrpc: "2.0", id, result: {} });
const cancel = (requestId: number): JSONRPCMessage => notification("notifications/cancelled", { requestId });

function shown(message: JSONRPCMessage): string {
  const { id, method } = message as { id?: number; method?: string };
  return [method ?? "answer", id].filter((part) => part !== undefined).join(" ");
}

/** A filter that holds requests of one method until they are let go, and what came of everything. */
function holding(...more: Filter[]) {
  const held = new Map<number, () => void>();
  const hold: Filter = {
    fromClient(wire, signal) {
      const { id, method } = wire.message as { id: number; method?: string };
      if (method !== "hold") return { kind: "pass", wire };
      return new Promise<FilterDecision>((resolve, reject) => {
        held.set(id, () => resolve({ kind: "pass", wire }));
        signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      });
    },
  };
  const run = new FilterChain([...more, hold]);
  const outcomes: string[] = [];
  const say = (message: JSONRPCMessage): Promise<void> =>
    run.fromClient(wireMessage(message), ({ kind }) => void outcomes.push(`${kind} ${shown(message)}`));
  return { run, held, outcomes, say };
}

const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
};

it("passes on at once what no filter holds, with its text unchanged", async () => {
  const run = new FilterChain([{}, { fromClient: (wire) => ({ kind: "pass", wire }) }]);
  const passed: FilterDecision[] = [];
  const wire: WireMessage = { message: request(1), text: ' {"jsonrpc":"2.0", "id":1,"method":"tools/call"}' };
  const sending = run.fromClient(wire, (decision) => void passed.push(decision));
  const receiving = run.fromServer(wire, (decision) => void passed.push(decision));
  expect(passed).toEqual([
    { kind: "pass", wire },
    { kind: "pass", wire },
  ]);
  expect(passed[0]?.kind === "pass" && passed[0].wire).toBe(wire);
  await Promise.all([sending, receiving]);
});

it("asks filters in order towards the server and in reverse towards the client", async () => {
  const asked: string[] = [];
  const [a, b] = ["a", "b"].map((name): Filter => ({
    fromClient: (wire) => (asked.push(`${name} out`), { kind: "pass", wire }),
    fromServer: (wire) => (asked.push(`${name} in`), { kind: "pass", wire }),
  }));
  const run = new FilterChain([a ?? {}, b ?? {}]);
  await run.fromClient(wireMessage(request(1)), () => undefined);
  await run.fromServer(wireMessage(answer(1)), () => undefined);
  expect(asked).toEqual(["a out", "b out", "b in", "a in"]);
});

it("passes an answer of a filter back through the filters before it, and asks none behind it", async () => {
  const behind: string[] = [];
  const changed = { jsonrpc: "2.0", id: 1, result: { changed: true } } as const;
  const run = new FilterChain([
    { fromServer: () => ({ kind: "pass", wire: wireMessage(changed) }) },
    { fromClient: () => ({ kind: "answer", wire: wireMessage(answer(1)) }) },
    { fromClient: (wire) => (behind.push("asked"), { kind: "pass", wire }) },
  ]);
  const outcomes: FilterDecision[] = [];
  await run.fromClient(wireMessage(request(1)), (decision) => void outcomes.push(decision));
  expect(outcomes).toEqual([{ kind: "answer", wire: wireMessage(changed) }]);
  expect(behind).toEqual([]);
});

it("lets requests and answers overtake a held request, but no notification", async () => {
  const { held, outcomes, say } = holding();
  void say(request(1, "hold"));
  void say(request(2));
  void say(answer(7));
  expect(outcomes).toEqual(["pass tools/call 2", "pass answer 7"]);
  void say(notification("notifications/initialized"));
  void say(request(3));
  await settled();
  expect(outcomes).toHaveLength(2);
  held.get(1)?.();
  await settled();
  expect(outcomes.slice(2)).toEqual(["pass hold 1", "pass notifications/initialized", "pass tools/call 3"]);
});

it("drops a held request that is cancelled, and its cancellation", async () => {
  const { outcomes, say } = holding();
  const first = say(request(1, "hold"));
  const taken = say(cancel(1));
  await Promise.all([first, taken]);
  expect(outcomes.toSorted()).toEqual(["drop hold 1", "drop notifications/cancelled"]);
  void say(request(2));
  void say(cancel(2));
  expect(outcomes.slice(2)).toEqual(["pass tools/call 2", "pass notifications/cancelled"]);
});

it("drops the cancellation of a request that a filter answered or dropped, once", async () => {
  const own: Filter = {
    fromClient: (wire) =>
      "id" in wire.message ? { kind: "answer", wire: wireMessage(answer(1)) } : { kind: "pass", wire },
  };
  const { outcomes, say } = holding(own);
  await say(request(1));
  await say(cancel(1));
  await say(cancel(1));
  expect(outcomes).toEqual([
    "answer tools/call 1",
    "drop notifications/cancelled",
    "pass notifications/cancelled",
  ]);
});

it("drops waiting and later messages when it is closed", async () => {
  const { run, outcomes, say } = holding();
  const sent = [say(request(1, "hold")), say(notification("later")), say(request(2))];
  run.close();
  await Promise.all([...sent, say(request(3)), say(notification("last"))]);
  expect(outcomes.toSorted()).toEqual([
    "drop hold 1",
    "drop last",
    "drop later",
    "drop tools/call 2",
    "drop tools/call 3",
  ]);
  const received: string[] = [];
  await run.fromServer(wireMessage(answer(1)), ({ kind }) => void received.push(kind));
  expect(received).toEqual(["drop"]);
});

it("does not wait for a filter that ignores its signal", async () => {
  const run = new FilterChain([{ fromClient: () => new Promise<FilterDecision>(() => undefined) }]);
  const outcomes: string[] = [];
  const sending = run.fromClient(wireMessage(request(1)), ({ kind }) => void outcomes.push(kind));
  run.close();
  await sending;
  expect(outcomes).toEqual(["drop"]);
});

it("rejects with the error of a filter or of delivering, and goes on", async () => {
  const broken = new Error("broken");
  const run = new FilterChain([
    {
      fromClient(wire) {
        if ("method" in wire.message && wire.message.method === "throw") throw broken;
        return { kind: "pass", wire };
      },
      fromServer: () => Promise.reject(broken),
    },
  ]);
  const none = (): void => undefined;
  await expect(run.fromClient(wireMessage(request(1, "throw")), none)).rejects.toBe(broken);
  await expect(run.fromClient(wireMessage(request(2)), () => Promise.reject(broken))).rejects.toBe(broken);
  await expect(run.fromServer(wireMessage(answer(2)), none)).rejects.toBe(broken);
  await run.fromClient(wireMessage(request(3)), none);
});

it("never lets a message of the server overtake another, however long a filter takes", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(5), { maxLength: 20 }), async (delays) => {
      const run = new FilterChain([
        {
          async fromServer(wire) {
            const { id } = wire.message as { id: number };
            for (let turn = 0; turn < (delays[id] ?? 0); turn += 1) await Promise.resolve();
            return { kind: "pass", wire };
          },
        },
      ]);
      const got: number[] = [];
      const note = (index: number) => () => void got.push(index);
      await Promise.all(delays.map((_, index) => run.fromServer(wireMessage(answer(index)), note(index))));
      expect(got).toEqual(delays.map((_, index) => index));
    }),
  );
});

it("delivers every message once; notifications and requests that are not held keep their order", async () => {
  const kinds = fc.constantFrom("hold", "request", "notification", "answer");
  await fc.assert(
    fc.asyncProperty(fc.array(kinds, { maxLength: 25 }), async (sequence) => {
      const { held, outcomes, say } = holding();
      const messages = sequence.map((kind, index): JSONRPCMessage => {
        if (kind === "hold") return request(index, "hold");
        if (kind === "request") return request(index);
        return kind === "answer" ? answer(index) : notification(`note ${index}`);
      });
      const sending = Promise.all(messages.map(say));
      for (let turn = 0; turn <= sequence.length; turn += 1) {
        for (const release of held.values()) release();
        await settled();
      }
      await sending;
      const order = outcomes.map((outcome) => outcome.replace("pass ", ""));
      const sent = messages.map(shown);
      expect(order.toSorted()).toEqual(sent.toSorted());
      for (const [index, kind] of sequence.entries()) {
        if (kind !== "notification") continue;
        const place = order.indexOf(sent[index] ?? "");
        expect(new Set(order.slice(0, place))).toEqual(new Set(sent.slice(0, index)));
      }
      const unheld = (list: string[]): string[] => list.filter((each) => !each.startsWith("hold"));
      expect(unheld(order)).toEqual(unheld(sent));
    }),
  );
});
