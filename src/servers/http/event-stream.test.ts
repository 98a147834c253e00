import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventCutter, eventWithData, type StreamEvent } from "./event-stream.ts";

function cut(
  text: string,
  sizes: readonly number[] = [],
  limit = 1000,
): { events: StreamEvent[]; rest: string; tooLong: number } {
  let tooLong = 0;
  const cutter = new EventCutter({ limit, onTooLong: () => (tooLong += 1) });
  const bytes = Buffer.from(text);
  const events: StreamEvent[] = [];
  let start = 0;
  for (const size of [...sizes, bytes.length]) {
    events.push(...cutter.push(bytes.subarray(start, start + size)));
    start += size;
  }
  return { events, rest: cutter.rest().toString(), tooLong };
}

describe("a stream of events", () => {
  it("is split at empty lines, and its fields are read", () => {
    const text = `: hello\n\nid: 7\r\nevent:message\r\nretry: 50\r\ndata: {"a":\r\ndata: 1}\r\n\r\ndata\n\n: rest`;
    const { events, rest } = cut(text);
    expect(events.map(({ bytes: _bytes, ...fields }) => fields)).toEqual([
      {},
      { id: "7", event: "message", retry: 50, data: `{"a":\n1}` },
      { data: "" },
    ]);
    expect(rest).toBe(": rest");
  });

  it.each(["\n", "\r\n", "\r"])(
    "gives the same events and bytes in whatever chunks it comes (%j)",
    (lineEnd) => {
      const text = ["data: é", "id: 1", "", ": c", "", "", "data: 2", "data:  3", "", "x"].join(lineEnd);
      const whole = cut(text);
      expect(whole.events.map(({ data }) => data)).toEqual(["é", undefined, undefined, "2\n 3"]);
      fc.assert(
        fc.property(fc.array(fc.integer({ min: 1, max: 5 })), (sizes) => {
          const { events, rest } = cut(text, sizes);
          expect(events.map(({ data }) => data).filter((data) => data !== undefined)).toEqual(["é", "2\n 3"]);
          expect(events.map(({ bytes }) => bytes.toString()).join("") + rest).toBe(text);
        }),
      );
    },
  );

  it("holds no more than the limit of one event, and reports it once", () => {
    expect(cut(`data: ${"x".repeat(90)}\n\n`.repeat(20), [], 100).tooLong).toBe(0);
    const { events, tooLong } = cut(`data: 1\n\ndata: ${"x".repeat(200)}\n\ndata: 2\n\n`, [20, 20, 100], 100);
    expect(events.map(({ data }) => data)).toEqual(["1"]);
    expect(tooLong).toBe(1);
  });

  it("keeps everything but the data of an event whose message is changed", () => {
    const [event] = cut(`: c\r\nid: 7\r\ndata: {\r\ndata: }\r\nevent: message\r\n\r\n`).events;
    expect(event === undefined ? "" : eventWithData(event, "{}").toString()).toBe(
      ": c\nid: 7\nevent: message\ndata: {}\n\n",
    );
  });
});
