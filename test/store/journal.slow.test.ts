import { appendFile, mkdtemp, readdir, readFile, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Json } from "../../src/base/json.ts";
import type { EventBody, TraceEvent } from "../../src/model/event.ts";
import { Journal, parseStored, readJournal, readTrials, type StoredTrial } from "../../src/store/journal.ts";
import { TrialEvents } from "../support/trial-events.ts";
import { misfitOf } from "../../src/store/misfits.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "mcpvals-journal-"));
});
afterEach(() => rm(folder, { recursive: true }));

const path = (): string => join(folder, "journal.jsonl");

function add(journal: Journal, ...events: readonly TraceEvent[]): void {
  for (const event of events) journal.append(event, JSON.stringify(event));
}

async function write(...events: readonly TraceEvent[]): Promise<void> {
  await using journal = new Journal(folder);
  add(journal, ...events);
}

function event(seq: number, body: EventBody): TraceEvent {
  return { seq, at: 1000 + seq, trial: "t1", ...body };
}

function message(seq: number, content: Json, raw?: string): TraceEvent {
  const place = {
    type: "mcp.message",
    server: "s",
    direction: "server-to-client",
    message: content,
  } as const;
  return event(seq, raw === undefined ? place : { ...place, raw });
}

const some = [1, 2, 3].map((seq) => event(seq, { type: "agent.message", turn: 0, text: `text ${seq}` }));

describe("a journal read back", () => {
  it("gives the events of a whole trial", async () => {
    const trial = new TrialEvents().begin("task").server("calc", [{ name: "add" }]);
    trial.turn("Add.", () => trial.call("add", { a: 1 }, { content: [] }));
    trial.end();
    await write(...trial.events);
    expect(await readJournal(folder)).toEqual({ events: trial.events, torn: false });
  });

  it("gives each trial once, without what came after its grades", async () => {
    const graded = event(2, { type: "trial.graded", verdict: "pass", score: 1, grades: [] });
    await write(some[0]!, graded, some[2]!);
    const trials: (readonly number[])[] = [];
    for await (const { events } of readTrials(folder)) trials.push(events.map((each) => each.event.seq));
    expect(trials).toEqual([[1, 2]]);
  });

  it("is refused when it is not a regular file", async () => {
    await symlink("/dev/null", path());
    await expect(readJournal(folder)).rejects.toMatchObject({
      code: "store/corrupt",
      message: expect.stringContaining("it is not a regular file"),
    });
  });

  it("returns every event unchanged", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.jsonValue(), { maxLength: 5 }),
        fc.string({ unit: "binary" }),
        async (values, text) => {
          await rm(path(), { force: true });
          const events = [
            ...values.map((value, index) => message(index + 1, value as Json, text)),
            event(values.length + 1, { type: "agent.message", turn: 0, text }),
          ];
          await write(...events);
          expect((await readJournal(folder)).events).toEqual(JSON.parse(JSON.stringify(events)));
        },
      ),
      { numRuns: 60 },
    );
  });

  it("has one line for each event, with a standard CRC-32", async () => {
    await write(event(1, { type: "agent.message", turn: 0, text: "line\u2028break é" }));
    expect(await readFile(path(), "utf8")).toBe(
      '{"crc":"7eb22b96","event":{"seq":1,"at":1001,"trial":"t1","type":"agent.message","turn":0,"text":"line\u2028break é"}}\n',
    );
  });

  it("can be larger than one read buffer", async () => {
    const events = Array.from({ length: 2000 }, (_, index) =>
      event(index + 1, { type: "server.stderr", server: "s", text: "é".repeat(700) }),
    );
    const large = event(2001, { type: "agent.message", turn: 0, text: "x".repeat(3_000_000) });
    await write(...events, large);
    expect(await readJournal(folder)).toEqual({ events: [...events, large], torn: false });
  });

  it("has the events of earlier versions under their names of now", async () => {
    await write({
      ...event(1, { type: "agent.reported", model: "m" }),
      type: "agent.told",
    } as unknown as TraceEvent);
    const { events } = await readJournal(folder);
    expect(events).toEqual([event(1, { type: "agent.reported", model: "m" })]);
    expect(misfitOf(events)).toBeUndefined();
  });

  it("has the flags of checks of earlier versions as their evidence", async () => {
    const check = { name: "a", passed: false, expected: 1, actual: 2, message: "no" };
    const finished = (...flags: object[]): TraceEvent =>
      event(1, {
        type: "step.finished",
        phase: "verify",
        step: "s",
        attempt: 1,
        outcome: "failed",
        durationMs: 1,
        checks: flags.map((each) => ({ ...check, ...each })),
      });
    const flags = [
      {},
      { acted: true },
      { untried: true, unplaced: true },
      { unplaced: true },
      { doubt: "d" },
    ];
    await write(finished(...flags));
    const evidence = (["sideEffect", "notRun", "pathMissing"] as const).map((each) => ({ evidence: each }));
    const { events } = await readJournal(folder);
    expect(events).toEqual([finished({}, ...evidence, { doubt: "d" })]);
    expect(misfitOf(events)).toBeUndefined();
  });

  it("is empty when nothing was written", async () => {
    await write();
    expect(await readJournal(folder)).toEqual({ events: [], torn: false });
  });
});

describe("the trials of a journal", () => {
  const read = async (): Promise<StoredTrial[]> => {
    const trials: StoredTrial[] = [];
    for await (const trial of readTrials(folder)) trials.push(trial);
    return trials;
  };
  const graded = { type: "trial.graded", verdict: "skip", score: null, grades: [] } as const;
  const textOf = (text: string): EventBody => ({ type: "agent.message", turn: 0, text });

  it("are whole, in whatever order their lines are", async () => {
    const texts = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "é", "\u2028", "\n") }), {
      minLength: 1,
    });
    const trials = fc.array(fc.record({ texts, isGraded: fc.boolean() }), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(trials, fc.array(fc.nat()), async (given, order) => {
        const expected = given.map(({ texts: ofTrial, isGraded }, index) =>
          [...ofTrial.map(textOf), ...(isGraded ? [graded] : [])].map((body, at) => ({
            ...event(at + 1, body),
            trial: `t${index}`,
          })),
        );
        const left = expected.map((events) => [...events]);
        const written = order.flatMap((number) => left[number % left.length]?.shift() ?? []);
        await writeFile(path(), "");
        await write(...written, ...left.flat());
        const all = new Map((await read()).map(({ id, events }) => [id, events.map((each) => each.event)]));
        expect(expected.map((_, index) => all.get(`t${index}`))).toEqual(expected);
      }),
    );
  });

  it.each([
    ["repeated", [0, 1, 1, 2], 3],
    ["removed", [0, 2], 2],
    ["moved", [1, 0, 2], 1],
  ])("are damaged where a line was %s", async (_, order, line) => {
    await write(...order.flatMap((index) => some[index] ?? []));
    const damaged = {
      message: `line ${line} of the journal is not the next of its trial`,
      details: { location: { line } },
    };
    await expect(read()).rejects.toMatchObject(damaged);
    await expect(readJournal(folder)).rejects.toMatchObject(damaged);
  });

  it("are damaged where one begins twice", async () => {
    const second = some.map((each) => ({ ...each, trial: "t2" }));
    await write(...some, ...second, ...some);
    const twice = { code: "store/corrupt", details: { location: { line: 7 } } };
    await expect(read()).rejects.toMatchObject(twice);
    await expect(readJournal(folder)).rejects.toMatchObject(twice);
  });
});

describe("large messages", () => {
  const large = { jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "x".repeat(300_000) }] } };

  it("are read back complete, and stored once", async () => {
    const events = [message(1, large), message(2, { small: true }), message(3, large)];
    await write(...events);
    expect((await readJournal(folder)).events).toEqual(events);
    expect((await readdir(join(folder, "attachments"))).length).toBe(1);
    expect((await readFile(path())).length).toBeLessThan(1000);
  });

  it("keep their text on the wire", async () => {
    const event = message(1, large, ` ${JSON.stringify(large)}`);
    await write(event);
    expect((await readJournal(folder)).events).toEqual([event]);
  });

  it("are on disk before the journal refers to them", async () => {
    const journal = new Journal(folder);
    add(journal, message(1, large));
    journal.flush();
    expect((await readJournal(folder)).events).toEqual([message(1, large)]);
    await journal[Symbol.asyncDispose]();
  });

  it("cannot be read by a server that sends a reference itself", async () => {
    const reference = { $attachment: "0".repeat(64), jsonrpc: "2.0", id: 1, result: {} };
    await write(message(1, reference), message(2, { $attachment: "../../etc/passwd" }));
    expect((await readJournal(folder)).events).toEqual([
      message(1, reference),
      message(2, { $attachment: "../../etc/passwd" }),
    ]);
  });

  it("that were changed or are missing are reported", async () => {
    await write(message(1, large));
    const [name = ""] = await readdir(join(folder, "attachments"));
    const file = join(folder, "attachments", name);
    await appendFile(file, " ");
    await expect(readJournal(folder)).rejects.toMatchObject({
      code: "store/corrupt",
      message: `the journal's attachment ${file} does not match its name`,
    });
    await rm(file);
    await expect(readJournal(folder)).rejects.toMatchObject({
      code: "store/corrupt",
      message: `the journal's attachment ${file} cannot be read`,
      cause: { code: "ENOENT" },
    });
  });
});

describe("damage", () => {
  it("of zeros in the place of lines is detected without reading all of them", async () => {
    const file = join(folder, "journal.jsonl");
    await writeFile(file, "");
    // A file without blocks.
    await truncate(file, 3 * 1024 ** 3);
    const before = process.memoryUsage().rss;
    await expect(readJournal(folder)).rejects.toMatchObject({ code: "store/corrupt" });
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 ** 2);
  });

  it("of any byte but the last line break is detected", async () => {
    await write(...some);
    const whole = await readFile(path());
    for (let index = 0; index < whole.length - 1; index += 1) {
      const bit = [1, 0x20, 0x80][index % 3] ?? 1;
      const damaged = Buffer.from(whole);
      damaged[index] = (damaged[index] ?? 0) ^ bit;
      await writeFile(path(), damaged);
      await expect(readJournal(folder), `byte ${index} ^ ${bit}`).rejects.toMatchObject({
        code: "store/corrupt",
      });
    }
  });

  it("is reported with its line", async () => {
    await write(...some);
    const lines = (await readFile(path(), "utf8")).split("\n");
    await writeFile(path(), [lines[0], lines[1]?.replace("text 2", "text 4"), lines[2], ""].join("\n"));
    await expect(readJournal(folder)).rejects.toMatchObject({
      message: "line 2 of the journal does not match its checksum",
      details: { location: { file: path(), line: 2 } },
    });
  });

  it("by an invalid line is detected", async () => {
    await write(...some);
    const text = await readFile(path(), "utf8");
    await writeFile(path(), `${text}\n`);
    await expect(readJournal(folder)).rejects.toMatchObject({ message: /^line 4 / });
  });

  it("by truncation of the last line is reported, and only that line is lost", async () => {
    await write(...some);
    const whole = await readFile(path());
    const start = whole.lastIndexOf(0x0a, -2) + 1;
    for (let length = start; length < whole.length; length += 1) {
      await writeFile(path(), whole.subarray(0, length));
      expect(await readJournal(folder)).toEqual({ events: some.slice(0, 2), torn: length > start });
    }
  });

  it("that removes the whole journal is reported", async () => {
    await expect(readJournal(folder)).rejects.toMatchObject({
      code: "store/corrupt",
      message: expect.stringContaining("the journal of the run cannot be read: ENOENT"),
    });
  });
});

describe("commits", () => {
  it("may overlap, and each covers all events appended before it", async () => {
    await using journal = new Journal(folder);
    let seq = 0;
    const commits = Array.from({ length: 200 }, async (_, index) => {
      if (index % 3 === 0) await Promise.resolve();
      const own = event((seq += 1), { type: "agent.message", turn: 0, text: `${index}` });
      add(journal, own);
      await journal.commit();
      return own;
    });
    for (const own of await Promise.all(commits))
      expect((await readJournal(folder)).events).toContainEqual(own);
    expect((await readJournal(folder)).events).toHaveLength(200);
  });

  it("are not needed for events to reach the file within 100 ms", async () => {
    await using journal = new Journal(folder);
    add(journal, ...some);
    await expect.poll(async () => (await readJournal(folder)).events).toEqual(some);
  });

  it("are not needed for large events, which are written at once", async () => {
    await using journal = new Journal(folder);
    const event = message(1, "x".repeat(100_000));
    add(journal, event);
    expect((await readJournal(folder)).events).toEqual([event]);
  });

  it("ignore events after the end", async () => {
    const journal = new Journal(folder);
    add(journal, ...some);
    await journal[Symbol.asyncDispose]();
    add(journal, event(4, { type: "agent.message", turn: 0, text: "late" }));
    journal.flush();
    await journal[Symbol.asyncDispose]();
    expect(await readJournal(folder)).toEqual({ events: some, torn: false });
  });
});

describe.runIf(process.platform === "linux")("a full disk", () => {
  beforeEach(() => symlink("/dev/full", path()));

  it("stops the recording but not the process, and is reported once", async () => {
    const journal = new Journal(folder);
    add(journal, message(1, "x".repeat(100_000)));
    add(journal, ...some);
    await expect(journal.commit()).rejects.toMatchObject({ code: "ENOSPC" });
    await expect(journal.commit()).rejects.toMatchObject({ code: "ENOSPC" });
    await journal[Symbol.asyncDispose]();
  });

  it("is reported at the end if there was no commit", async () => {
    const journal = new Journal(folder);
    add(journal, ...some);
    await expect(journal[Symbol.asyncDispose]()).rejects.toMatchObject({ code: "ENOSPC" });
  });
});

it("does not allow a short record to be nested too deeply", () => {
  const levels = (count: number): Buffer => Buffer.from("[".repeat(count) + "]".repeat(count));
  expect(parseStored(levels(500))).toHaveLength(1);
  expect(() => parseStored(levels(501))).toThrow("more than 500 levels deep");
});

it("is reported for an attachment that cannot be written", async () => {
  await writeFile(join(folder, "attachments"), "in the way");
  const journal = new Journal(folder);
  add(journal, ...some, message(4, "x".repeat(300_000)), ...some);
  await expect(journal.commit()).rejects.toMatchObject({ code: "EEXIST" });
  await journal[Symbol.asyncDispose]();
  expect(await readJournal(folder)).toEqual({ events: some, torn: false });
});
