import { expect } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { exitCode } from "../../src/report/result.ts";
import { type Ended, runFaulty } from "../support/faults.ts";
import { type ServerConfig, trialOf } from "../e2e/support.ts";

export type ToolTest = NonNullable<Config["toolHealthSuites"]>[number]["tests"][number];

/** One thing that goes wrong with a server, and what has to come of it. */
export interface Fault {
  readonly server: ServerConfig;
  readonly test: ToolTest;
  readonly verdict: "pass" | "fail" | "error" | "timeout";
  /** The code of the trial's error; absent when it has none. */
  readonly code?: string;
  /** Parts of what both the trial in JSON and the console have to say. */
  readonly says?: readonly string[];
  /** What the console has to say besides. */
  readonly hints?: readonly string[];
  /** Parts of the trial's warnings. */
  readonly warns?: readonly string[];
}

export type Faults = Readonly<Record<string, Fault>>;

/** The result that `raw` writes as its answer. */
export const saysHi = '{"content":[{"type":"text","text":"hi"}]}';

/** An answer as it goes over the wire; `$ID` stands for the number of the call. */
export function answer(result: string, id = "$ID"): string {
  return `{"jsonrpc":"2.0","id":${id},"result":${result}}\n`;
}

/** A call that is answered with these texts or bytes, one after the other. */
export function raw(...pieces: (string | number[])[]): ToolTest {
  return { name: "raw", args: { pieces } };
}

/** A run with one task for each fault, a server of its own for each, several at once. Faults that wait for a limit set it. */
export function runAll(faults: Faults): Promise<Ended> {
  const entries = Object.entries(faults);
  const servers = Object.fromEntries(entries.map(([name, { server }]) => [name, server]));
  const tests = entries.map(([name, { test }]) => ({ ...test, description: name, server: name }));
  return runFaulty({
    timeout: 30_000,
    concurrency: 4,
    servers,
    toolHealthSuites: [{ name: "s", parallel: true, tests }],
  });
}

/** Checks what came of one fault. */
export function expectVerdict({ result, console }: Ended, name: string, fault: Fault): void {
  const trial = trialOf(result, `s/${name}`);
  expect({ verdict: trial.verdict, code: trial.error?.code }).toEqual({
    verdict: fault.verdict,
    code: fault.code,
  });
  const row = strings(trial).join("\n");
  for (const text of fault.says ?? []) {
    expect(row).toContain(text);
    for (const line of text.split("\n")) expect(console).toContain(line);
  }
  for (const hint of fault.hints ?? []) expect(console).toContain(hint);
  expect(trial.warnings ?? []).toEqual(
    (fault.warns ?? []).map((text): unknown => expect.stringContaining(text)),
  );
}

/** Checks that a run's exit code is that of its verdict. */
export function expectExit({ code, result }: Ended, verdict: Ended["result"]["verdict"]): void {
  expect([result.verdict, code]).toEqual([verdict, exitCode(verdict)]);
}

/** Every text in a value. */
export function strings(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(strings) : [];
}
