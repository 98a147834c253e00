import { environment } from "../config/environment.ts";
import { parsePackageRef } from "../core/formats/extension/parse-package-ref.ts";
import type { JsonObject } from "../core/formats/json-value.ts";
import { visibleText } from "../core/report/visible-text.ts";
import {
  contractHolds,
  type ContractReport,
  type ContractVerdict,
  runContract,
} from "../extensions/contract/run-contract.ts";
import { launchOf } from "../extensions/host/launch-of.ts";
import { createStyle, type Tone } from "../reporters/format/style.ts";
import { abortOnInterrupt } from "./interrupt.ts";
import { openExtensions } from "./open-extensions.ts";
import { stdoutOutput } from "./terminal.ts";
import { columns, writeAnswer } from "./write-answer.ts";

/** The flags of `extensions test` as commander gives them. */
export interface ContractFlags {
  readonly json?: boolean;
  readonly config?: JsonObject;
  /** Milliseconds. */
  readonly timeout?: number;
}

/**
 * Carries out `mcpvals extensions test` and gives the exit code: 0 when the program does all that an extension must, else
 * 1. Throws McpvalsError `extension/not-found` and `extension/invalid-manifest`.
 */
export async function executeExtensionsTest(program: string, flags: ContractFlags): Promise<number> {
  using interrupt = abortOnInterrupt();
  const { cwd, resolver } = await openExtensions({});
  const written = parsePackageRef(program).ok ? program : `./${program}`;
  const how = { frozen: false, offline: true };
  const { extension } = await resolver.resolve({ package: written, dir: cwd }, undefined, how);
  const report = await runContract({
    ...launchOf(extension),
    cwd,
    env: environment(),
    signal: interrupt.signal,
    ...(extension.manifest === undefined ? {} : { manifest: extension.manifest }),
    ...(flags.config === undefined ? {} : { config: flags.config }),
    ...(flags.timeout === undefined ? {} : { timeoutMs: flags.timeout }),
  });
  const counts = countsOf(report);
  writeAnswer({ json: { ...report, counts }, lines: lines(program, report) }, flags);
  return contractHolds(report) ? 0 : 1;
}

type Outcome = ContractVerdict["outcome"];

const tones: Readonly<Record<Outcome, Tone>> = { pass: "good", fail: "bad", warn: "warn", skip: "dim" };

function countsOf({ verdicts }: ContractReport): Readonly<Record<Outcome, number>> {
  const count = (outcome: Outcome): number =>
    verdicts.filter((verdict) => verdict.outcome === outcome).length;
  return { pass: count("pass"), fail: count("fail"), warn: count("warn"), skip: count("skip") };
}

function lines(program: string, report: ContractReport): string[] {
  const style = createStyle(stdoutOutput().colors);
  const { verdicts } = report;
  const rows = columns(verdicts.map(({ outcome, name, message }) => [outcome, name, firstLine(message)]));
  const painted = verdicts.flatMap(({ outcome, message }, index) => {
    const row = rows[index] ?? "";
    const more = outcome === "pass" ? [] : message.split("\n").slice(1);
    return [
      `  ${style[tones[outcome]](outcome)}${row.slice(outcome.length)}`,
      ...more.map((line) => `        ${visibleText(line)}`),
    ];
  });
  const { pass, fail, warn, skip } = countsOf(report);
  const others = Object.entries({ failed: fail, "with a warning": warn, skipped: skip }).filter(
    ([, count]) => count > 0,
  );
  const summary = [`${pass} passed`, ...others.map(([what, count]) => `${count} ${what}`)].join(", ");
  return [`${program}  ${report.protocols.join(", ")}`, ...painted, summary];
}

function firstLine(text: string): string {
  return text.split("\n")[0] ?? "";
}
