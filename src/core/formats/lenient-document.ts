import type * as z from "zod";
import type { KeyPath } from "./key-path.ts";

type Schema = z.core.$ZodType;
type Definition = z.core.$ZodTypes["_zod"]["def"];

/** Something that was put right while a document was read. Its path is the document's own. */
export type Repair =
  | { readonly kind: "unknown-key"; readonly path: KeyPath; readonly known: readonly string[] }
  | { readonly kind: "number-as-text" | "text-as-boolean"; readonly path: KeyPath };

/** A document as its schema would have it written. */
export interface LenientDocument {
  readonly value: unknown;
  readonly repairs: readonly Repair[];
  /** The path in the document itself of a path in `value`. */
  readonly written: (path: KeyPath) => KeyPath;
}

/**
 * Brings a document into the form that its schema wants, as Go's YAML readers do: keys whatever their case, empty members as
 * if they were absent, numbers and booleans where texts are wanted, `yes` and `no` where booleans are; unknown keys are left
 * out. What has another type stays for the schema to refuse. What may be one of several kinds of objects is left alone.
 */
export function readLeniently(document: unknown, schema: Schema): LenientDocument {
  const state: State = { repairs: [], renamed: new Map() };
  const value = read(document, schema, { canonical: [], written: [], state });
  return { value, repairs: state.repairs, written: (path) => writtenPath(path, state.renamed) };
}

interface State {
  readonly repairs: Repair[];
  /** Keys as written, by the canonical path that they end. */
  readonly renamed: Map<string, string>;
}

interface Place {
  readonly canonical: KeyPath;
  readonly written: KeyPath;
  readonly state: State;
}

function read(value: unknown, schema: Schema, place: Place): unknown {
  const def = innermost(schema);
  switch (def.type) {
    case "object":
      return isRecord(value) ? readObject(value, def, place) : value;
    case "record":
      return isRecord(value) ? readRecord(value, def.valueType, place) : value;
    case "array":
      return Array.isArray(value)
        ? value.map((item: unknown, index) => read(item, def.element, under(place, index, index)))
        : value;
    case "union": {
      const option = "discriminator" in def ? undefined : optionFor(value, def.options);
      return option === undefined ? value : read(value, option, place);
    }
    case "string":
      return readText(value, place);
    case "boolean":
      return readBoolean(value, place);
    default:
      return value;
  }
}

/** What is behind `optional`, `default` and the like. */
function innermost(schema: Schema): Definition {
  const { _zod: internals } = schema as z.core.$ZodTypes;
  const { def } = internals;
  if (def.type === "pipe") return innermost(def.in);
  return "innerType" in def ? innermost(def.innerType) : def;
}

function readObject(
  value: Readonly<Record<string, unknown>>,
  { shape, catchall }: Pick<Extract<Definition, { type: "object" }>, "shape" | "catchall">,
  place: Place,
): Readonly<Record<string, unknown>> {
  const known = Object.keys(shape);
  // Where keys may be names, one in another case is another name.
  const others = catchall === undefined || innermost(catchall).type === "never" ? undefined : catchall;
  const members: [string, unknown][] = [];
  for (const [key, member] of Object.entries(value)) {
    const canonical = others === undefined ? canonicalKey(key, { known, value }) : key;
    const schema = known.includes(canonical ?? "") ? shape[canonical ?? ""] : others;
    if (canonical === undefined || schema === undefined) {
      place.state.repairs.push({ kind: "unknown-key", path: [...place.written, key], known });
    } else if (member !== null && member !== undefined) {
      members.push([canonical, read(member, schema, under(place, canonical, key))]);
    }
  }
  return Object.fromEntries(members);
}

/** The key of the schema that is meant; a key written in another case gives way to the exact one. */
function canonicalKey(
  key: string,
  { known, value }: { readonly known: readonly string[]; readonly value: object },
): string | undefined {
  if (known.includes(key)) return key;
  const folded = key.toLowerCase();
  return known.find((each) => each.toLowerCase() === folded && !Object.hasOwn(value, each));
}

function readRecord(
  value: Readonly<Record<string, unknown>>,
  schema: Schema,
  place: Place,
): Readonly<Record<string, unknown>> {
  const isText = innermost(schema).type === "string";
  const members = Object.entries(value).map(([key, member]) => {
    const given = isText && member === null ? "" : member;
    return [key, read(given, schema, under(place, key, key))] as const;
  });
  return Object.fromEntries(members);
}

function readText(value: unknown, { written, state }: Place): unknown {
  if (typeof value !== "number" && typeof value !== "boolean") return value;
  state.repairs.push({ kind: "number-as-text", path: written });
  return String(value);
}

const words: Readonly<Record<string, boolean>> = {
  yes: true,
  on: true,
  true: true,
  no: false,
  off: false,
  false: false,
};

function readBoolean(value: unknown, { written, state }: Place): unknown {
  const meant = typeof value === "string" ? words[value.toLowerCase()] : undefined;
  if (meant === undefined) return value;
  state.repairs.push({ kind: "text-as-boolean", path: written });
  return meant;
}

/** The only option that a value can be; where several can be, the schema has to decide. */
function optionFor(value: unknown, options: readonly Schema[]): Schema | undefined {
  const only = (kinds: readonly string[]): Schema | undefined => {
    const [first, ...others] = options.filter((option) => kinds.includes(innermost(option).type));
    return others.length === 0 ? first : undefined;
  };
  if (Array.isArray(value)) return only(["array"]);
  return isRecord(value) ? only(["object", "record"]) : (only([typeof value]) ?? only(["string"]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function under({ canonical, written, state }: Place, key: string | number, as: string | number): Place {
  const path = [...canonical, key];
  if (key !== as) state.renamed.set(keyOf(path), String(as));
  return { canonical: path, written: [...written, as], state };
}

function writtenPath(path: KeyPath, renamed: ReadonlyMap<string, string>): KeyPath {
  return path.map((key, index) => renamed.get(keyOf(path.slice(0, index + 1))) ?? key);
}

function keyOf(path: KeyPath): string {
  return JSON.stringify(path);
}
