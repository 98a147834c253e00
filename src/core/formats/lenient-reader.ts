import type * as z from "zod";
import type { Diagnostic } from "../errors/error.ts";
import { formatLocation } from "../errors/render.ts";
import { didYouMean } from "./did-you-mean.ts";
import { formatKeyPath, type KeyPath } from "./json.ts";
import { type Locate, mostProblems, placeProblems, type Problem, validate } from "./problem.ts";
import { problemsOfIssues } from "./zod-problems.ts";

export interface LenientReaderOptions {
  /** Nothing is put right, so that unknown keys are refused. */
  readonly strict?: boolean;
  /** Objects in which an unknown key that looks like a known one is refused, since it may be what confines something. */
  readonly refusesTypos?: (path: KeyPath) => boolean;
  /** What notes name of their place: the file and the line, or the line only. The file unless given. */
  readonly notes?: "file" | "line";
}

/** Reads the parts of one document by their schemas, and gathers what is wrong and what is odd. Lives while a file is read. */
export class LenientReader {
  readonly #locate: Locate;
  readonly #strict: boolean;
  readonly #place: "file" | "line";
  readonly #refusesTypos: (path: KeyPath) => boolean;
  readonly #problems: Problem[] = [];
  readonly #notes: string[] = [];
  /** Keys as the document has them, for paths with the schema's. */
  #written: (path: KeyPath) => KeyPath = (path) => path;

  constructor(locate: Locate, options: LenientReaderOptions = {}) {
    const { strict = false, notes = "file", refusesTypos = () => false } = options;
    this.#locate = locate;
    this.#strict = strict;
    this.#refusesTypos = refusesTypos;
    this.#place = notes;
  }

  /**
   * Reads a value by its schema; `path` says where in the document it stands. Gives undefined for a value that the schema
   * refuses; why is then among the problems.
   */
  read<S extends z.ZodType>(schema: S, value: unknown, path: KeyPath = []): z.output<S> | undefined {
    const lenient = this.#strict ? asWritten(value) : readLeniently(value, schema);
    if (path.length === 0) this.#written = lenient.written;
    for (const repair of lenient.repairs) this.#noteRepair({ ...repair, path: [...path, ...repair.path] });
    const parsed = validate(schema, lenient.value);
    if (parsed.issues.length === 0) return parsed.data;
    const told = parsed.issues.slice(0, mostProblems);
    const issues = told.map((issue) => ({ ...issue, path: [...path, ...issue.path] }));
    const found = problemsOfIssues(issues, wrap(lenient.value, path));
    for (const problem of found) {
      const written = lenient.written(problem.path.slice(path.length));
      this.problem({ ...problem, path: [...path, ...written] });
    }
    return undefined;
  }

  problem(problem: Problem): void {
    this.#problems.push({ ...problem, path: this.#written(problem.path) });
  }

  /** Refuses a value. */
  refuse(message: string, path: KeyPath, rest: Partial<Problem> = {}): void {
    this.problem({ code: "config/invalid-value", message, path, at: "value", ...rest });
  }

  /** Refuses what says nothing; only notes it where files are read leniently. */
  checksNothing(message: string, path: KeyPath): void {
    this.misleads(message, path, { code: "config/checks-nothing" });
  }

  /** Refuses what says less than its author may think; only notes it where files are read leniently. */
  misleads(message: string, path: KeyPath, rest: Partial<Problem> = {}): void {
    if (this.#strict) this.refuse(message, path, rest);
    else this.note(message, path);
  }

  #noteRepair(repair: Repair): void {
    const typo = repair.kind === "unknown-key" && this.#refusesTypos(repair.path.slice(0, -1));
    const key = String(repair.path.at(-1) ?? "");
    const near = typo ? didYouMean(key, repair.known) : undefined;
    if (near !== undefined) {
      const message = `unknown key ${JSON.stringify(key.slice(0, 80))} in ${formatKeyPath(repair.path.slice(0, -1))}`;
      const hint = `Did you mean "${near}"?`;
      this.problem({ code: "config/unknown-key", message, path: repair.path, at: "key", hint });
      return;
    }
    this.note(describeRepair(repair), repair.path);
  }

  /** Tells what is accepted and still may not be what the author wants. */
  note(message: string, path: KeyPath): void {
    const location = this.#locate({ path: this.#written(path), at: "key" });
    if (this.#place === "file" && location !== undefined)
      this.#notes.push(`${formatLocation(location)}: ${message}`);
    else this.#notes.push(location?.line === undefined ? message : `line ${location.line}: ${message}`);
  }

  get notes(): readonly string[] {
    return this.#notes;
  }

  get failed(): boolean {
    return this.#problems.length > 0;
  }

  /** All problems with their places, in the order of the file. */
  diagnostics(): readonly Diagnostic[] {
    return placeProblems(this.#problems, this.#locate);
  }
}

function asWritten(value: unknown): ReturnType<typeof readLeniently> {
  return { value, repairs: [], written: (path) => path };
}

/** A document that has nothing but a value at a path, so that messages about it can name the whole path. */
function wrap(value: unknown, path: KeyPath): unknown {
  return path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
}

function describeRepair(repair: Repair): string {
  const key = String(repair.path.at(-1) ?? "");
  switch (repair.kind) {
    case "unknown-key": {
      const parent = repair.path.slice(0, -1);
      const inside = parent.length === 0 ? "" : ` in ${formatKeyPath(parent)}`;
      const near = didYouMean(key, repair.known);
      const question = near === undefined ? "" : `; did you mean "${near}"?`;
      return `unknown key ${JSON.stringify(key.slice(0, 80))}${inside} is ignored${question}`;
    }
    case "number-as-text":
      return `${formatKeyPath(repair.path)} is taken as a text; write it in quotes`;
    case "text-as-boolean":
      return `${formatKeyPath(repair.path)} is taken as true or false; write it so`;
  }
}

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
