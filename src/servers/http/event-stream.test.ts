import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { eventsOf, eventWithData, type StreamEvent } from "./event-stream.ts";

/** Reads a stream in chunks of these sizes; the rest comes in one. */
async function read(text: string, sizes: readonly number[] = [], limit = 1000): Promise<StreamEvent[]> {
  const bytes = Buffer.from(text);
  const starts = sizes.reduce((all, size) => [...all, (all.at(-1) ?? 0) + size], [0]);
  const chunks = starts.map((start, index) => bytes.subarray(start, starts[index + 1]));
  const events: StreamEvent[] = [];
  for await (const event of eventsOf({ body: ReadableStream.from(chunks) }, { server: "s", limit }))
    events.push(event);
  return events;
}

describe("a stream of events", () => {
  it("is split at empty lines, and its fields are read", async () => {
    const text = `: hello\n\nid: 7\r\nevent:message\r\nretry: 50\r\ndata: {"a":\r\ndata: 1}\r\n\r\ndata\n\n: rest`;
    const events = await read(text);
    expect(events.map(({ bytes: _bytes, ...fields }) => fields)).toEqual([
      {},
      { id: "7", event: "message", retry: 50, data: `{"a":\n1}` },
      { data: "" },
      {},
    ]);
    expect(events.at(-1)?.bytes.toString()).toBe(": rest");
  });

  it.each(["\n", "\r\n", "\r"])(
    "gives the same events and bytes for any chunk sizes (line end %j)",
    async (end) => {
      const text = ["data: é", "id: 1", "", ": c", "", "", "data: 2", "data:  3", "", "x"].join(end);
      expect((await read(text)).map(({ data }) => data)).toEqual([
        "é",
        undefined,
        undefined,
        "2\n 3",
        undefined,
      ]);
      await fc.assert(
        fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 5 })), async (sizes) => {
          const events = await read(text, sizes);
          expect(events.flatMap(({ data }) => data ?? [])).toEqual(["é", "2\n 3"]);
          expect(events.map(({ bytes }) => bytes.toString()).join("")).toBe(text);
        }),
      );
    },
  );

  it("buffers at most `limit` bytes of one event", async () => {
    expect(await read(`data: ${"x".repeat(90)}\n\n`.repeat(20), [], 98)).toHaveLength(20);
    const long = `data: 1\n\ndata: ${"x".repeat(200)}\n\n`;
    for (const sizes of [[], [20, 20, 100]])
      await expect(read(long, sizes, 100)).rejects.toThrow("a message of more than 100 bytes");
  });

  it("keeps the other fields when the data of an event is replaced", async () => {
    const [event] = await read(`: c\r\nid: 7\r\ndata: {\r\ndata: }\r\nevent: message\r\n\r\n`);
    expect(event === undefined ? "" : eventWithData(event, "{}").toString()).toBe(
      ": c\nid: 7\nevent: message\ndata: {}\n\n",
    );
  });
});
