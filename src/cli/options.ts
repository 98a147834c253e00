import { InvalidArgumentError } from "commander";
import { McpvalsError } from "../core/errors/error.ts";
import { parseDuration } from "../core/formats/duration.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/json-value.ts";

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

/** Reads a duration such as `500ms`, `2s` or `5m` into milliseconds. A number without a unit may be meant as anything. */
export function duration(value: string): number {
  if (/^[\d.\s]+$/.test(value))
    throw new InvalidArgumentError(
      `Give it a unit: ${value.trim()}s, ${value.trim()}m or ${value.trim()}ms.`,
    );
  const ms = parseDuration(value);
  if (ms !== undefined && ms > 0) return ms;
  throw new InvalidArgumentError("Give a duration such as 500ms, 2s or 5m.");
}

const ageUnits: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Reads an age such as `12h`, `30d` or `8w` into milliseconds; it may be longer than a timer can wait. */
export function age(value: string): number {
  const [, count, unit = ""] = /^(\d{1,6})([mhdw])$/.exec(value) ?? [];
  const unitMs = ageUnits[unit];
  if (count !== undefined && unitMs !== undefined) return Number(count) * unitMs;
  throw new InvalidArgumentError("Give an age such as 90m, 12h, 30d or 8w.");
}

/** Reads a SHA-256 in hex; small and capital letters are the same. */
export function sha256(value: string): string {
  if (/^[0-9a-f]{64}$/i.test(value)) return value.toLowerCase();
  throw new InvalidArgumentError("Give 64 hexadecimal digits.");
}

/** Reads a JSON object. */
export function jsonObject(value: string): JsonObject {
  const read = parsedJson(value);
  if (isJsonObject(read)) return read;
  throw new InvalidArgumentError("Give a JSON object.");
}

function parsedJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined; // the caller says what is expected
  }
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
