import { InvalidArgumentError } from "commander";
import { McpvalsError } from "../core/errors/error.ts";
import { parseDuration } from "../core/formats/duration.ts";

/** What a command line names, as arguments or with `--config`. Throws `usage/invalid-option` for both. */
export function namedSources(sources: readonly string[], option: string | undefined): readonly string[] {
  if (option === undefined) return sources;
  const [other] = sources.filter((source) => source !== option);
  if (other === undefined) return [option];
  const message = `two configs are named: ${other} and --config ${option}`;
  throw new McpvalsError("usage/invalid-option", message);
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

/** Collects `KEY=VALUE` texts as they are. */
export function label(value: string, previous: readonly string[] | undefined): readonly string[] {
  if (value.indexOf("=") < 1) throw new InvalidArgumentError("Write it as KEY=VALUE.");
  return collect(value, previous);
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
