import { describe, expect, it } from "vitest";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { EventBody } from "../../core/trace/events.ts";
import { wireMessage } from "../messages/json-rpc.ts";
import { AgentConnection } from "./agent-connection.ts";

function open(): { connection: AgentConnection; events: EventBody[]; losses: McpvalsError[] } {
  const events: EventBody[] = [];
  const losses: McpvalsError[] = [];
  const connection = new AgentConnection({
    server: "s",
    client: "1",
    via: "http",
    emit: (event) => events.push(event),
    filters: () => [],
    onLost: (error) => losses.push(error),
  });
  return { connection, events, losses };
}

const note = wireMessage({ jsonrpc: "2.0", method: "notifications/message" });

describe("an agent's connection", () => {
  it("is not flooded by its server", async () => {
    const { connection, losses } = open();
    const kinds = new Set<string>();
    for (let index = 0; index < 100_000; index++)
      await connection.fromServer(note, ({ kind }) => void kinds.add(kind));
    expect([...kinds]).toEqual(["pass"]);
    await connection.fromServer(note, ({ kind }) => void kinds.add(kind));
    expect([...kinds]).toEqual(["pass", "disconnect"]);
    expect(losses.map(({ code }) => code)).toEqual(["server/protocol-error"]);
  });

  it("is cut when the agent sends messages in a loop", async () => {
    const { connection, losses } = open();
    const kinds = new Set<string>();
    for (let index = 0; index < 100_000; index++)
      await connection.fromAgent(note, ({ kind }) => void kinds.add(kind));
    expect([...kinds]).toEqual(["pass"]);
    await connection.fromAgent(note, ({ kind }) => void kinds.add(kind));
    expect([...kinds]).toEqual(["pass", "disconnect"]);
    expect(losses).toEqual([]);
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

  it("records the text of a message where serializing it would give another", async () => {
    const { connection, events } = open();
    const text = `{"jsonrpc":"2.0","id":1.0,"method":"m"}`;
    await connection.fromAgent({ message: { jsonrpc: "2.0", id: 1, method: "m" }, text }, () => undefined);
    connection.recordDelivered(note);
    expect(events.slice(1)).toEqual([
      expect.objectContaining({ direction: "client-to-server", raw: text }),
      expect.not.objectContaining({ raw: expect.anything() as unknown }),
    ]);
  });
});
