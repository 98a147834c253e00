import { resolve } from "node:path";
import type { RunResult } from "../model/result.ts";
import { exitCode } from "../report/result.ts";
import { visibleText } from "../base/visible-text.ts";
import { McpvalsError, messageOf } from "../base/error.ts";
import { suggestion } from "../base/did-you-mean.ts";
import type { NamedReporter, ReporterOutput } from "../report/reporter.ts";
import { reporters } from "../report/reporters.ts";
import { fileOutput, stdoutOutput, writeError } from "./terminal.ts";

const known = new Map(Object.entries(reporters));

/**
 * Creates reporters from `NAME` (to stdout) and `NAME=FILE`. Throws `usage/invalid-option` for an unknown name and for two
 * that both write to stdout or to one file, and `store/unwritable` for a file that cannot be written.
 */
export function openReporters(
  specs: readonly string[],
  options: Pick<ReporterOutput, "quiet"> = {},
): NamedReporter[] {
  const targets = specs.map((spec) => {
    const [, name = "", file] = /^([^=]*)(?:=(.*))?$/s.exec(spec) ?? [];
    const create = known.get(name);
    if (create === undefined) {
      throw new McpvalsError("usage/invalid-option", `there is no reporter "${name}"`, {
        hint: suggestion(name, [...known.keys()], "reporters"),
      });
    }
    if (file === "") {
      throw new McpvalsError("usage/invalid-option", `--reporter ${spec} names no file`, {
        hint: `Write --reporter ${name} for stdout, or --reporter ${name}=FILE.`,
      });
    }
    return { name, file, create };
  });
  const onStdout = targets.filter((target) => target.file === undefined).map(({ name }) => name);
  // Those of GitHub Actions are commands between other lines.
  const isShared = onStdout.every((name) => name === "console" || name === "github");
  if (onStdout.length > 1 && !(isShared && new Set(onStdout).size === 2)) {
    throw new McpvalsError("usage/invalid-option", `${onStdout.join(" and ")} would both write to stdout`, {
      hint: "Give all but one of them a file: --reporter NAME=FILE.",
    });
  }
  const files = Map.groupBy(
    targets.filter(({ file }) => file !== undefined),
    ({ file = "" }) => resolve(file),
  );
  for (const [file, several] of files) {
    if (several.length === 1) continue;
    const names = several.map(({ name }) => name).join(" and ");
    throw new McpvalsError("usage/invalid-option", `${names} would both write to ${file}`, {
      hint: "Give each a file of its own.",
    });
  }
  return targets.map(({ name, file, create }) => {
    if (file === undefined) return { name, reporter: create(stdoutOutput(options)) };
    const output = fileOutput(file);
    const reporter = create(output);
    const close = async (): Promise<void> => {
      try {
        await reporter.close?.();
      } finally {
        output.close();
      }
    };
    return { name: `${name}=${file}`, reporter: { ...reporter, close } };
  });
}

/**
 * The exit code of a run. Writes what went wrong with its reports; a pass of which a report is missing has the exit code of what
 * could not be proven.
 */
export function exitCodeOf(
  { verdict }: Pick<RunResult, "verdict">,
  failures: readonly { readonly reporter: string; readonly error: unknown }[],
): number {
  for (const { reporter, error } of failures) writeError(visibleText(`${reporter}: ${messageOf(error)}`));
  const code = exitCode(verdict);
  if (code !== 0 || failures.length === 0) return code;
  writeError("Everything passed, but not all reports could be written, or a hook failed: exit 3.");
  return 3;
}
