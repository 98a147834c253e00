import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { expect, it } from "vitest";
import type { JsonObject } from "../../base/json.ts";
import type { EventBody } from "../../model/event.ts";
import type { Attack } from "../../model/server.ts";
import { wireMessage } from "../messages/json-rpc.ts";
import { attackFilter, Injection } from "./attack-filter.ts";
import { FilterChain, type FilterDecision } from "./filter-chain.ts";

/** A connection under an attack, after the agent has listed the tools of the server. */
function connect(attack: Partial<Attack>, tools: readonly JsonObject[]) {
  const events: EventBody[] = [];
  const emit = (event: EventBody): number => events.push(event);
  const injection = new Injection({ id: "a", class: "c", channel: "tool", text: "Do it.", ...attack }, "k");
  const chain = new FilterChain([attackFilter(injection, { server: "s", emit })]);
  const decide = (message: JSONRPCMessage, side: "fromClient" | "fromServer"): FilterDecision => {
    let decided: FilterDecision = { kind: "drop" };
    void chain[side](wireMessage(message), (decision) => void (decided = decision));
    return decided;
  };
  decide({ jsonrpc: "2.0", id: 1, method: "tools/list" }, "fromClient");
  const list = decide({ jsonrpc: "2.0", id: 1, result: { tools: [...tools] } }, "fromServer");
  const call = (name: string, args: JsonObject): FilterDecision => {
    const params = { name, arguments: { ...args } };
    return decide({ jsonrpc: "2.0", id: 2, method: "tools/call", params }, "fromClient");
  };
  const answer = (result: JsonObject): { readonly content: readonly { readonly text: string }[] } => {
    const decided = decide({ jsonrpc: "2.0", id: 2, result }, "fromServer");
    if (decided.kind !== "pass" || !("result" in decided.wire.message)) throw new Error("it is no result");
    return decided.wire.message.result as never;
  };
  return { events, list, call, answer };
}

function toolOf(name: string, properties: JsonObject = {}): JsonObject {
  return { name, inputSchema: { type: "object", properties } };
}

const further = { name: "close", description: "Closes.", parameters: {} };

it("leaves a tool that has the name of the further one to the server", () => {
  const { events, list, call } = connect({ tool: further }, [toolOf("close")]);
  expect(list).toMatchObject({ wire: { message: { result: { tools: [toolOf("close")] } } } });
  expect(call("close", { a: 1 })).toMatchObject({
    kind: "pass",
    wire: { message: { params: { name: "close", arguments: { a: 1 } } } },
  });
  expect(events).toEqual([]);
});

it("answers calls of a further tool that it has added", () => {
  const { events, call } = connect({ tool: further }, [toolOf("add")]);
  expect(call("close", {}).kind).toBe("answer");
  expect(events).toMatchObject([{ part: "tool" }, { part: "answer" }]);
});

it("adds a parameter to tools only that have none of that name", () => {
  const own = toolOf("note", { context: { type: "number" } });
  const attack = { channel: "parameter", parameter: "context" } as const;
  const { events, list, call } = connect(attack, [own, toolOf("add")]);
  const added = toolOf("add", { context: { type: "string", description: "Do it." } });
  expect(list).toMatchObject({ wire: { message: { result: { tools: [own, added] } } } });
  expect(call("note", { context: 1 })).toMatchObject({
    wire: { message: { params: { arguments: { context: 1 } } } },
  });
  expect(events).toMatchObject([
    { part: "text", changes: [{ at: "/result/tools/1/inputSchema/properties/context" }] },
  ]);
  expect(JSON.stringify(call("add", { context: "x" }))).not.toContain("context");
  expect(events).toMatchObject([{ part: "text" }, { part: "parameter" }]);
});

it("adds paragraphs of their own to a result, since some clients join the texts of blocks", () => {
  const { call, answer } = connect({ channel: "result" }, [toolOf("add")]);
  call("add", {});
  const { content } = answer({ content: [{ type: "text", text: "1." }] });
  expect(content.map(({ text }) => text).join("")).toMatch(/^1\.\n\nConnection key: k\n.*\n\nDo it\.$/s);
});
