import { describe, expect, it } from "vitest";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { EventBody } from "../../core/trace/events.ts";
import { wireMessage } from "../messages/json-rpc.ts";
import { AgentLink } from "./agent-link.ts";

function open(): { link: AgentLink; events: EventBody[]; losses: McpvalsError[] } {
  const events: EventBody[] = [];
  const losses: McpvalsError[] = [];
  const link = new AgentLink({
    server: "s",
    client: "1",
    via: "http",
    emit: (event) => events.push(event),
    filters: () => [],
    onLost: (error) => losses.push(error),
  });
  return { link, events, losses };
}

const note = wireMessage({ jsonrpc: "2.0", method: "notifications/message" });

describe("an agent's connection", () => {
  it("is not flooded by its server", async () => {
    const { link, losses } = open();
    const kinds = new Set<string>();
    for (let index = 0; index < 100_000; index++)
      await link.fromServer(note, ({ kind }) => void kinds.add(kind));
    expect([...kinds]).toEqual(["pass"]);
    await link.fromServer(note, ({ kind }) => void kinds.add(kind));
    expect([...kinds]).toEqual(["pass", "disconnect"]);
    expect(losses.map(({ code }) => code)).toEqual(["server/protocol-error"]);
  });

  it("is cut when the agent itself goes round in circles", async () => {
    const { link, losses } = open();
    const kinds = new Set<string>();
    for (let index = 0; index < 100_001; index++)
      await link.fromAgent(note, ({ kind }) => void kinds.add(kind));
    expect([...kinds]).toEqual(["pass", "disconnect"]);
    expect(losses).toEqual([]);
  });

  it("records nothing after its end, and passes nothing on", async () => {
    const { link, events } = open();
    let cuts = 0;
    link.holds(() => (cuts += 1));
    link.holds(() => (cuts += 10))();
    link.end();
    link.end();
    await link.fromAgent(note, () => expect.unreachable());
    await link.fromServer(note, () => expect.unreachable());
    link.delivers(note);
    link.responds("POST", 200, []);
    link.holds(() => (cuts += 100));
    expect(cuts).toBe(101);
    expect(events.map(({ type }) => type)).toEqual(["gateway.connected", "gateway.disconnected"]);
  });

  it("has the text of a message on record where writing it again would give another", async () => {
    const { link, events } = open();
    const text = `{"jsonrpc":"2.0","id":1.0,"method":"m"}`;
    await link.fromAgent({ message: { jsonrpc: "2.0", id: 1, method: "m" }, text }, () => undefined);
    link.delivers(note);
    expect(events.slice(1)).toEqual([
      expect.objectContaining({ direction: "client-to-server", raw: text }),
      expect.not.objectContaining({ raw: expect.anything() as unknown }),
    ]);
  });
});
