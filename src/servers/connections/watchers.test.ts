import { describe, expect, it } from "vitest";
import type { EventBody } from "../../model/event.ts";
import { Watchers } from "./host.ts";

const started: EventBody = { type: "server.started", server: "s", transport: "stdio", target: "x" };
const stopped: EventBody = { type: "server.stopped", server: "s", by: "stdin", durationMs: 1 };
const stderr = (text: string): EventBody => ({ type: "server.stderr", server: "s", text });
const omitted = (stream: "stdout" | "stderr", bytes: number): EventBody => ({
  type: "server.output_omitted",
  server: "s",
  stream,
  bytes,
});

/** The events of one watcher between the start and the end. */
function record(write: (watchers: Watchers) => void): EventBody[] {
  const watchers = new Watchers("s", { transport: "stdio", target: "x" });
  const events: EventBody[] = [];
  watchers.add((event) => events.push(event));
  write(watchers);
  watchers.stop("stdin", 1);
  watchers.emit(started);
  expect([events.shift(), events.pop()]).toEqual([started, stopped]);
  return events;
}

describe("the record of a server", () => {
  it("has whole lines, however they arrive, and the rest before other events", () => {
    const exited = { type: "server.exited", server: "s", exitCode: 0, signal: null, expected: true } as const;
    const events = record((watchers) => {
      for (const text of ["token=ab", "cd\nnext ", "line\nand"]) watchers.stderr(Buffer.from(text), true);
      watchers.emit(exited);
      watchers.stderr(Buffer.from("end"), true);
      watchers.stderr(Buffer.from("not recorded"), false);
    });
    expect(events).toEqual([
      stderr("token=abcd\n"),
      stderr("next line\n"),
      stderr("and"),
      exited,
      stderr("end"),
    ]);
  });

  it("leaves out a line that is longer than the limit, and counts it", () => {
    const events = record((watchers) => watchers.stderr(Buffer.alloc(300 * 1024, "y"), true));
    expect(events).toEqual([omitted("stderr", 300 * 1024)]);
  });

  it("stops at 256 KiB, before the line that would be cut, and counts the rest", () => {
    const line = `${"y".repeat(99)}\n`;
    const events = record((watchers) => {
      for (let lines = 0; lines < 5000; lines += 1) watchers.stderr(Buffer.from(line), true);
    });
    const kept = Math.floor((256 * 1024) / 100);
    expect(events.slice(0, -1)).toEqual(Array.from({ length: kept }, () => stderr(line)));
    expect(events.at(-1)).toEqual(omitted("stderr", (5000 - kept) * 100));
  });

  it("has fifty invalid lines, truncated, and counts the rest", () => {
    const events = record((watchers) => {
      for (let line = 0; line < 60; line += 1)
        watchers.invalidLine(Buffer.from(`${line} ${"é".repeat(3000)}`));
      expect(watchers.evidence().firstInvalidLine).toBe(`0 ${"é".repeat(1998)}…`);
    });
    expect(events).toHaveLength(51);
    const text = `0 ${"é".repeat(1998)}…`;
    expect(events[0]).toEqual({ type: "server.invalid_output", server: "s", text });
    expect(events.at(-1)).toEqual(omitted("stdout", 10 * 6004));
  });

  it("gives earlier output to the first watcher, and marks the server as reused for the next", () => {
    const watchers = new Watchers("s", { transport: "stdio", target: "x" });
    watchers.stderr(Buffer.from("early\nrest"), true);
    const [first, second]: EventBody[][] = [[], []];
    const stop = watchers.add((event) => first?.push(event) ?? 0);
    stop();
    watchers.add((event) => second?.push(event) ?? 0);
    expect([first, second]).toEqual([
      [started, stderr("early\n"), stderr("rest")],
      [{ ...started, reused: true }],
    ]);
  });
});
