import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { fixtureScript } from "../process/support.ts";
import { callOptions, fixtureSpec, startSession } from "./support.ts";

const flood = 50_000_000;

/** Peak memory, in MB, of a process that uses the fixture server. */
async function peakMemory(...args: string[]): Promise<{ peak: number; stdout: string }> {
  const { stdout } = await promisify(execFile)(process.execPath, [fixtureScript("use-server.ts"), ...args]);
  return { peak: Number(/^peak (\d+)$/m.exec(stdout)?.[1]) / 1024, stdout };
}

describe("a flood on stderr", () => {
  it("neither blocks the server nor fills the record", async () => {
    const { session, record } = await startSession(
      fixtureSpec([`--flood-stderr=${flood}`, "--stderr=first"]),
    );
    expect((await session.callTool("echo", { message: "hi" }, callOptions())).kind).toBe("result");
    await session.stop();
    const texts = record.of("server.stderr").map(({ text }) => text);
    const recorded = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    expect(recorded).toBeGreaterThan(255 * 1024);
    expect(recorded).toBeLessThanOrEqual(256 * 1024);
    expect(texts[0]).toMatch(/^first\n/);
    expect(texts.every((text) => text.endsWith("\n"))).toBe(true);
    const [omitted, ...others] = record.of("server.output_omitted");
    expect([omitted?.stream, others]).toEqual(["stderr", []]);
    expect((omitted?.bytes ?? 0) + recorded).toBeGreaterThanOrEqual(flood);
    expect(record.events.at(-1)?.type).toBe("server.stopped");
  });

  it("does not increase the memory use", async () => {
    const { peak: calm } = await peakMemory("peak");
    const { peak } = await peakMemory("peak", `--flood-stderr=${4 * flood}`);
    expect(peak - calm).toBeLessThan(100);
  });
});

describe("a response of 100 MB", () => {
  it("is refused without being buffered", async () => {
    const { peak: calm } = await peakMemory("peak");
    const { peak, stdout } = await peakMemory("huge");
    expect(stdout).toContain('server "fixture" sent a message of more than 10000000 bytes');
    expect(peak - calm).toBeLessThan(100);
  });
});
