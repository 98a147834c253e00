import { McpvalsError } from "../core/errors/error.ts";
import { suggestion } from "../core/formats/did-you-mean.ts";
import type { NamedReporter, Reporter } from "../core/report/reporter.ts";
import { isReporterName, type ReporterName } from "../core/formats/reporters.ts";
import { reporters } from "../reporters/index.ts";
import { fileOutput, stdoutOutput } from "./terminal.ts";

/**
 * Creates reporters from `NAME` (to stdout) and `NAME=FILE`. Throws `usage/invalid-option` for an unknown name and for two
 * that both write to stdout, and `store/unwritable` for a file that cannot be written.
 */
export function openReporters(specs: readonly string[]): NamedReporter[] {
  const targets = specs.map(parseTarget);
  const onStdout = targets.filter((target) => target.file === undefined);
  if (onStdout.length > 1) {
    const names = onStdout.map((target) => target.name).join(" and ");
    throw new McpvalsError("usage/invalid-option", `${names} would both write to stdout`, {
      hint: "Give all but one of them a file: --reporter NAME=FILE.",
    });
  }
  return targets.map(open);
}

interface Target {
  readonly name: ReporterName;
  readonly file?: string;
}

function parseTarget(spec: string): Target {
  const split = spec.indexOf("=");
  const name = split === -1 ? spec : spec.slice(0, split);
  if (!isReporterName(name)) {
    throw new McpvalsError("usage/invalid-option", `there is no reporter "${name}"`, {
      hint: suggestion(name, Object.keys(reporters), "reporters"),
    });
  }
  if (split === -1) return { name };
  const file = spec.slice(split + 1);
  if (file === "") {
    throw new McpvalsError("usage/invalid-option", `--reporter ${spec} names no file`, {
      hint: `Write --reporter ${name} for stdout, or --reporter ${name}=FILE.`,
    });
  }
  return { name, file };
}

function open({ name, file }: Target): NamedReporter {
  const create = reporters[name];
  if (file === undefined) return { name, reporter: create(stdoutOutput()) };
  const output = fileOutput(file);
  return { name: `${name}=${file}`, reporter: closingAfter(create(output), () => output.close()) };
}

function closingAfter(reporter: Reporter, release: () => void): Reporter {
  return {
    ...reporter,
    async close() {
      try {
        await reporter.close?.();
      } finally {
        release();
      }
    },
  };
}
