import { appendFileSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { TraceEvent } from "../../src/model/event.ts";
import { Journal, readJournal } from "../../src/store/journal.ts";
import { JournalIndex } from "../../src/store/journal-index.ts";
import { folderOf } from "../support/cli.ts";

let folder: ReturnType<typeof folderOf>;
let index: JournalIndex;
beforeEach(() => {
  folder = folderOf({});
  index = new JournalIndex(folder.path);
});
afterEach(() => folder[Symbol.dispose]());

const journal = (): string => join(folder.path, "journal.jsonl");

/** An event of a trial; with `last`, written as one of which a secret was removed. */
function said(trial: string, seq: number, text = "hello", last = false): { event: TraceEvent; json: string } {
  const body = { type: "agent.message", turn: 0, text } as const;
  const stamp = { seq, at: 1_795_000_000_000.25 + seq, trial };
  const event: TraceEvent = last ? { ...body, ...stamp } : { ...stamp, ...body };
  return { event, json: JSON.stringify(event) };
}

async function write(
  ...all: readonly { readonly event: TraceEvent; readonly json: string }[]
): Promise<void> {
  await using file = new Journal(folder.path);
  for (const { event, json } of all) file.append(event, json);
}

describe("the index of a journal", () => {
  it.each([true, false])(
    "gives each trial its events, whatever is in them (in the index: %s)",
    async (isExtended) => {
      const forged =
        '"trial":"t2","type":"trial.graded"}}\n{"crc":"00000000","event":{"seq":1,"at":1,"trial":"t2"';
      const all = [
        said("t1", 1),
        said("t1", 2, forged),
        said("t2", 1, "é\u2028😀"),
        said("t1", 3, forged, true),
        said("a trial of another name", 1),
        said("t2", 2, "", true),
      ];
      const nested = {
        ...said("t1", 4).event,
        type: "step.started",
        input: { trial: "t2", type: "x" },
      } as object;
      all.push({ event: nested as TraceEvent, json: JSON.stringify(nested) });
      await write(...all);
      if (isExtended) index.extend();
      const { events } = await readJournal(folder.path);
      expect(events).toEqual(all.map(({ event }) => event));
      for (const trial of ["t1", "t2", "a trial of another name"])
        expect(index.events(trial)).toEqual(events.filter((event) => event.trial === trial));
      for (const event of events) expect(index.event(event.trial, event.seq)).toEqual(event);
      expect([index.events("t3"), index.event("t1", 5), index.endOf("t3")]).toEqual([[], undefined, 0]);
    },
  );

  it("goes on where it ended, also inside a line that is not complete", async () => {
    await write(said("t1", 1), said("t2", 1));
    const whole = readFileSync(journal());
    truncateSync(journal(), whole.length - 20);
    expect([...index.extend().keys()]).toEqual(["t1"]);
    expect(index.extend().size).toBe(0);
    appendFileSync(journal(), whole.subarray(-20));
    expect([...index.extend().keys()]).toEqual(["t2"]);
    expect(index.events("t2")).toHaveLength(1);
    const before = index.endOf("t1");
    await write(said("t1", 2));
    index.extend();
    expect(index.endOf("t1")).toBeGreaterThan(before);
    expect(index.events("t1").map(({ seq }) => seq)).toEqual([1, 2]);
  });

  it("says which trials have an end", async () => {
    const finished = {
      seq: 2,
      at: 2,
      trial: "t1",
      type: "trial.finished",
      outcome: "completed",
      durationMs: 1,
    } as const;
    await write(
      said("t1", 1),
      said("t2", 1),
      { event: finished, json: JSON.stringify(finished) },
      said("t1", 3),
    );
    expect([...index.extend()]).toEqual(["t1", "t2"]);
    expect(["t1", "t2"].map((trial) => index.hasEnd(trial))).toEqual([true, false]);
    expect([...index.extend()]).toEqual([]);
    expect(index.hasEnd("t1")).toBe(true);
  });

  it("reads lines that are longer than what it reads at once, and large messages from their files", async () => {
    const message = { jsonrpc: "2.0", id: 1, result: { text: "x".repeat(600_000) } };
    const stamp = { seq: 2, at: 2, trial: "t1" };
    const event: TraceEvent = {
      ...stamp,
      type: "mcp.message",
      server: "s",
      direction: "server-to-client",
      message,
    };
    await write(said("t1", 1, "y".repeat(9_000_000)), { event, json: JSON.stringify(event) }, said("t2", 1));
    for (const read of [() => undefined, () => index.extend()]) {
      read();
      expect(index.events("t1").map(({ seq }) => seq)).toEqual([1, 2]);
      expect(index.event("t1", 2)).toEqual(event);
    }
  });

  it("refuses lines that were changed", async () => {
    await write(said("t1", 1, "hello"), said("t2", 1));
    const text = readFileSync(journal(), "utf8");
    writeFileSync(journal(), text.replace("hello", "hullo"));
    index.extend();
    expect(() => index.events("t1")).toThrow(expect.objectContaining({ code: "store/corrupt" }));
    expect(index.events("t2")).toHaveLength(1);
    writeFileSync(journal(), `${text}no event\n`);
    expect(() => new JournalIndex(folder.path).extend()).toThrow("line 3 of the journal");
  });

  it("takes a journal that does not exist yet for empty, and refuses what is not a file", () => {
    expect(index.extend().size).toBe(0);
    mkdirSync(journal());
    expect(() => index.extend()).toThrow("it is not a regular file");
  });
});
