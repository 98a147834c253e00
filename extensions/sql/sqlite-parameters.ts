import { DatabaseError } from "./database.ts";
import type { Bound } from "./params.ts";

/** Values as `node:sqlite` takes them: those with a name, then those without. */
export interface SqliteValues {
  readonly named: Readonly<Record<string, SqliteValue>>;
  readonly positional: readonly SqliteValue[];
}

export type SqliteValue = string | number | bigint | Uint8Array | null;

/** Texts, quoted names and comments, which have no parameters in them; then parameters. A doubled quote makes two texts. */
const tokens =
  /'[^']*(?:'|$)|"[^"]*(?:"|$)|`[^`]*(?:`|$)|\[[^\]]*(?:\]|$)|--[^\n]*|\/\*[^]*?(?:\*\/|$)|(\?\d*|[$:@]\w+)/g;

/**
 * Gives every parameter of a statement its value: `$1` and `?1` the first, plain `?` one after the other. Throws
 * DatabaseError when they are not exactly those that there are values for.
 */
export function sqliteValues(sql: string, params: readonly Bound[]): SqliteValues {
  const found = [...sql.matchAll(tokens)].flatMap(([, name]) => (name === undefined ? [] : [name]));
  const plain = found.filter((name) => name === "?").length;
  const numbers = new Set(found.filter((name) => name !== "?").map(numberOf));
  if (plain > 0 && numbers.size > 0) throw wrong("mixes ? with numbered parameters: use one of both");
  const needed = plain > 0 ? plain : [...numbers].reduce((most, number) => Math.max(most, number), 0);
  if (needed !== params.length) throw wrong(`needs ${count(needed)}, but params has ${params.length}`);
  const values = params.map(sqliteValue);
  if (plain > 0) return { named: {}, positional: values };
  const named = found.map((name) => [name, values[numberOf(name) - 1] ?? null] as const);
  return { named: Object.fromEntries(named), positional: [] };
}

function numberOf(name: string): number {
  const number = Number(name.slice(1));
  if (Number.isInteger(number) && number > 0 && !/^[:@]/.test(name)) return number;
  throw wrong(`has the parameter ${name}: write $1, $2 and so on`);
}

function count(needed: number): string {
  return needed === 1 ? "1 parameter" : `${needed} parameters`;
}

function wrong(what: string): DatabaseError {
  return new DatabaseError("statement", `the statement ${what}`);
}

/** Whole numbers are bound as such; else a column without a type would have them with a fraction. */
function sqliteValue(value: Bound): SqliteValue {
  if (typeof value === "boolean") return value ? 1 : 0;
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : value;
}
