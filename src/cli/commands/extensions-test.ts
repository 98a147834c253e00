import { parsePackageRef } from "../../core/formats/extension/package-ref.ts";
import type { JsonObject } from "../../core/formats/json.ts";
import { quoteBar, visibleText } from "../../core/text/visible-text.ts";
import {
  contractHolds,
  type ContractReport,
  type ContractVerdict,
  runContract,
} from "../../extensions/contract/run-contract.ts";
import { launchOf } from "../../extensions/host/extension-process.ts";
import { environment } from "../../load/environment.ts";
import { baseEnvironment } from "../../process/environment.ts";
import { createStyle, type Tone, wrapText } from "../../reporters/text.ts";
import { abortOnInterrupt, stdoutOutput } from "../terminal.ts";
import { columns, openExtensions, writeAnswer } from "./extensions.ts";

/** The flags of `extensions test` as commander gives them. */
export interface ContractFlags {
  readonly json?: boolean;
  readonly config?: JsonObject;
  /** Milliseconds. */
  readonly timeout?: number;
}

/**
 * `mcpvals extensions test`; returns the exit code: 0 when the program does all that an extension must, else
 * 1. Throws McpvalsError `extension/not-found` and `extension/invalid-manifest`.
 */
export async function testExtension(program: string, flags: ContractFlags): Promise<number> {
  using interrupt = abortOnInterrupt();
  const { cwd, resolver } = await openExtensions({});
  const written = parsePackageRef(program).ok ? program : `./${program}`;
  const how = { frozen: false, offline: true };
  const { extension } = await resolver.resolve({ package: written, dir: cwd }, undefined, how);
  const report = await runContract({
    ...launchOf(extension),
    cwd,
    env: baseEnvironment(environment()),
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
  const { colors, isTerminal, columns: width } = stdoutOutput();
  const style = createStyle(colors);
  const shown = withoutRepeats(report.verdicts);
  const names = columns(shown.map(({ name }) => [name, "|"])).map((row) => row.slice(0, -1));
  const painted = shown.flatMap(({ outcome, message }, index) => {
    const head = `  ${outcome}  ${names[index] ?? ""}`;
    const [first = "", ...others] = message.split("\n").map((line) => visibleText(line));
    const room = isTerminal ? width() - head.length : Infinity;
    const [line = "", ...rest] = wrapText(first, room);
    return [
      `  ${style[tones[outcome]](outcome)}${head.slice(2 + outcome.length)}${line}`,
      ...rest.map((text) => " ".repeat(head.length) + text),
      ...(outcome === "pass" ? [] : others).map((text) => `        ${quoteBar}${text}`),
    ];
  });
  const { pass, fail, warn, skip } = countsOf(report);
  const others = Object.entries({ failed: fail, "with a warning": warn, skipped: skip }).filter(
    ([, count]) => count > 0,
  );
  const summary = [`${pass} passed`, ...others.map(([what, count]) => `${count} ${what}`)].join(", ");
  return [visibleText(`${program}  ${report.protocols.join(", ")}`), ...painted, summary];
}

/** What was skipped for one reason, in one line. */
function withoutRepeats(verdicts: readonly ContractVerdict[]): readonly ContractVerdict[] {
  const shown = new Set<string>();
  return verdicts.flatMap((verdict) => {
    const { outcome, message } = verdict;
    const same = verdicts.filter((each) => each.outcome === outcome && each.message === message);
    if (outcome !== "skip" || same.length < 3) return [verdict];
    if (shown.has(message)) return [];
    shown.add(message);
    return [{ ...verdict, name: `${same.length} more` }];
  });
}
