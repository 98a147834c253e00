import { describe, expect, it } from "vitest";
import type { EventBody } from "../../core/trace/events.ts";
import { OutputRecorder } from "./output-recorder.ts";

function record(use: (recorder: OutputRecorder) => void): { events: EventBody[] } {
  const events: EventBody[] = [];
  const recorder = new OutputRecorder("s", (event) => events.push(event));
  use(recorder);
  return { events };
}

const stderr = (text: string): EventBody => ({ type: "server.stderr", server: "s", text });

describe("OutputRecorder", () => {
  it("records whole lines, however they arrive, and the rest at the end", () => {
    const { events } = record((recorder) => {
      for (const text of ["token=ab", "cd\nnext ", "line\nand", " more"]) recorder.stderr(Buffer.from(text));
      recorder.finish();
      recorder.finish();
    });
    expect(events).toEqual([stderr("token=abcd\n"), stderr("next line\n"), stderr("and more")]);
  });

  it("never splits a line, and leaves out one that is longer than the limit", () => {
    const { events } = record((recorder) => {
      for (let piece = 0; piece < 3; piece += 1) recorder.stderr(Buffer.alloc(9000, "x"));
      recorder.flush();
      recorder.stderr(Buffer.alloc(300 * 1024, "y"));
      recorder.finish();
    });
    expect(events.slice(0, -1)).toEqual([stderr("x".repeat(27_000))]);
    expect(events.at(-1)).toMatchObject({ type: "server.output_omitted", bytes: 300 * 1024 });
  });

  it("stops at 256 KiB, before the line that would be cut, and counts the rest", () => {
    const line = `${"y".repeat(99)}\n`;
    const { events } = record((recorder) => {
      for (let lines = 0; lines < 5000; lines += 1) recorder.stderr(Buffer.from(line));
      recorder.finish();
    });
    const kept = Math.floor((256 * 1024) / 100);
    expect(events.slice(0, -1)).toEqual(Array.from({ length: kept }, () => stderr(line)));
    expect(events.at(-1)).toEqual({
      type: "server.output_omitted",
      server: "s",
      stream: "stderr",
      bytes: (5000 - kept) * 100,
    });
  });

  it("records fifty invalid lines, truncated, and counts the rest", () => {
    const { events } = record((recorder) => {
      for (let line = 0; line < 60; line += 1)
        recorder.invalidLine(Buffer.from(`${line} ${"é".repeat(3000)}`));
      recorder.finish();
    });
    expect(events).toHaveLength(51);
    expect(events[0]).toEqual({
      type: "server.invalid_output",
      server: "s",
      text: `0 ${"é".repeat(1998)}…`,
    });
    expect(events.at(-1)).toEqual({
      type: "server.output_omitted",
      server: "s",
      stream: "stdout",
      bytes: 10 * 6004,
    });
  });
});
