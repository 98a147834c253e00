import { describe, expect, it } from "vitest";
import type { McpvalsError } from "../../base/error.ts";
import type { EventBody } from "../../model/event.ts";
import type { ServerHost } from "../connections/host.ts";
import { wireMessage } from "../messages/json-rpc.ts";
import { AgentConnection } from "./endpoint.ts";

function open(): { connection: AgentConnection; events: EventBody[]; losses: McpvalsError[] } {
  const events: EventBody[] = [];
  const losses: McpvalsError[] = [];
  const route = {
    host: { name: "s" } as ServerHost,
    emit: (event: EventBody) => events.push(event),
    filters: () => [],
    onLost: (error: McpvalsError) => losses.push(error),
  };
  const connection = new AgentConnection(route, "1", "http");
  return { connection, events, losses };
}

const note = wireMessage({ jsonrpc: "2.0", method: "notifications/message" });

describe("an agent's connection", () => {
  it.each([
    ["its server", "fromServer", ["server/protocol-error"]],
    ["the agent", "fromAgent", []],
  ] as const)("is cut when %s sends messages in a loop", async (_, direction, codes) => {
    const { connection, losses } = open();
    const kinds = new Set<string>();
    const send = (): Promise<void> => connection[direction](note, ({ kind }) => void kinds.add(kind));
    for (let index = 0; index < 100_000; index++) await send();
    expect([...kinds]).toEqual(["pass"]);
    await send();
    expect([...kinds]).toEqual(["pass", "disconnect"]);
    expect(losses.map(({ code }) => code)).toEqual(codes);
  });

  it("records nothing after its end, and passes nothing on", async () => {
    const { connection, events } = open();
    let cuts = 0;
    connection.onCut(() => (cuts += 1));
    connection.onCut(() => (cuts += 10))();
    connection.end();
    connection.end();
    await connection.fromAgent(note, () => expect.unreachable());
    await connection.fromServer(note, () => expect.unreachable());
    connection.recordDelivered(note);
    connection.recordResponse("POST", 200, []);
    connection.onCut(() => (cuts += 100));
    expect(cuts).toBe(101);
    expect(events.map(({ type }) => type)).toEqual(["gateway.connected", "gateway.disconnected"]);
  });
});
