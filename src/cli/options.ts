import { InvalidArgumentError } from "commander";
import { McpvalsError } from "../core/errors/error.ts";
import { parseDuration } from "../core/formats/duration.ts";

/** The config that a command line names, as its argument or with `--config`. Throws `usage/invalid-option` for two. */
export function namedConfig(argument: string | undefined, option: string | undefined): string | undefined {
  if (argument !== undefined && option !== undefined && argument !== option) {
    const message = `two configs are named: ${argument} and --config ${option}`;
    throw new McpvalsError("usage/invalid-option", message);
  }
  return argument ?? option;
}

/** Collects a repeatable option. */
export function collect(value: string, previous: readonly string[] | undefined): readonly string[] {
  return [...(previous ?? []), value];
}

/** Reads a whole number from 1 up to a limit. */
export function wholeNumber(most: number): (value: string) => number {
  return (value) => {
    const number = Number(value);
    if (Number.isInteger(number) && number >= 1 && number <= most) return number;
    throw new InvalidArgumentError(`Give a whole number from 1 to ${most}.`);
  };
}

/** Reads a duration such as `500ms`, `2s`, `5m`, or a number of milliseconds, into milliseconds. */
export function duration(value: string): number {
  const ms = parseDuration(/^\d+$/.test(value) ? Number(value) : value);
  if (ms !== undefined && ms > 0) return ms;
  throw new InvalidArgumentError("Give a duration such as 500ms, 2s or 5m.");
}

/** Collects `NAME=VALUE` pairs. */
export function variable(
  value: string,
  previous: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> {
  const split = value.indexOf("=");
  if (split < 1) throw new InvalidArgumentError("Write it as NAME=VALUE.");
  return { ...previous, [value.slice(0, split)]: value.slice(split + 1) };
}
