import type * as z from "zod";
import { type Diagnostic, formatLocation } from "../../base/error.ts";
import { didYouMean } from "../../base/did-you-mean.ts";
import { formatKeyPath, isJsonObject, type Json, type KeyPath } from "../../base/json.ts";
import {
  type Locate,
  maxProblems,
  placeProblems,
  type Problem,
  problem as problemOf,
  type ProblemDetails,
  validate,
} from "../../base/problem.ts";
import { problemsOfIssues } from "../../model/zod-problems.ts";

interface LenientReaderOptions {
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
  readonly #options: LenientReaderOptions;
  readonly #problems: Problem[] = [];
  readonly #notes: string[] = [];
  /** Keys as the document has them, for paths with the schema's. */
  #written: (path: KeyPath) => KeyPath = (path) => path;

  constructor(locate: Locate, options: LenientReaderOptions = {}) {
    this.#locate = locate;
    this.#options = options;
  }

  /**
   * Reads a value by its schema; `path` says where in the document it stands. Gives undefined for a value that the schema
   * refuses; why is then among the problems.
   */
  read<S extends z.ZodType>(schema: S, value: unknown, path: KeyPath = []): z.output<S> | undefined {
    const lenient: LenientDocument =
      this.#options.strict === true
        ? { value, repairs: [], written: (own) => own }
        : readLeniently(value, schema);
    if (path.length === 0) this.#written = lenient.written;
    for (const repair of lenient.repairs) this.#noteRepair({ ...repair, path: [...path, ...repair.path] });
    const { data, issues } = validate(schema, lenient.value);
    if (issues.length === 0) return data;
    const placed = issues
      .slice(0, maxProblems)
      .map((issue) => ({ ...issue, path: [...path, ...issue.path] }));
    // The whole path stands in messages.
    const document = path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), lenient.value);
    for (const found of problemsOfIssues(placed, document))
      this.problem({ ...found, path: [...path, ...lenient.written(found.path.slice(path.length))] });
    return undefined;
  }

  problem(problem: Problem): void {
    this.#problems.push({ ...problem, path: this.#written(problem.path) });
  }

  /** Refuses a value. */
  refuse(message: string, path: KeyPath, details?: ProblemDetails): void {
    this.problem(problemOf(path, message, details));
  }

  /** Refuses what says nothing; only notes it where files are read leniently. */
  checksNothing(message: string, path: KeyPath): void {
    this.misleads(message, path, { code: "config/checks-nothing" });
  }

  /** Refuses what says less than its author may think; only notes it where files are read leniently. */
  misleads(message: string, path: KeyPath, details?: ProblemDetails): void {
    if (this.#options.strict === true) this.refuse(message, path, details);
    else this.note(message, path);
  }

  #noteRepair({ kind, path, known = [] }: Repair): void {
    if (kind === "number-as-text")
      return this.note(`${formatKeyPath(path)} is taken as a text; write it in quotes`, path);
    if (kind === "text-as-boolean")
      return this.note(`${formatKeyPath(path)} is taken as true or false; write it so`, path);
    const parent = path.slice(0, -1);
    const key = String(path.at(-1) ?? "");
    const inside = parent.length === 0 ? "" : ` in ${formatKeyPath(parent)}`;
    const message = `unknown key ${JSON.stringify(key.slice(0, 80))}${inside}`;
    const near = didYouMean(key, known);
    if (near === undefined) this.note(`${message} is ignored`, path);
    else if (this.#options.refusesTypos?.(parent) === true)
      this.refuse(message, path, { code: "config/unknown-key", at: "key", hint: `Did you mean "${near}"?` });
    else this.note(`${message} is ignored; did you mean "${near}"?`, path);
  }

  /** Reports what is accepted and still may not be what the author wants. */
  note(message: string, path: KeyPath): void {
    const location = this.#locate({ path: this.#written(path), at: "key" });
    if (this.#options.notes !== "line" && location !== undefined)
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

type Schema = z.core.$ZodType;
type Definition = z.core.$ZodTypes["_zod"]["def"];

/** Something that was put right while a document was read. Its path is the document's own. */
interface Repair {
  readonly kind: "unknown-key" | "number-as-text" | "text-as-boolean";
  readonly path: KeyPath;
  /** The keys that there are. */
  readonly known?: readonly string[];
}

/** A document as its schema would have it written. */
interface LenientDocument {
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
  const written = (path: KeyPath): KeyPath =>
    path.map((key, index) => state.renamed.get(JSON.stringify(path.slice(0, index + 1))) ?? key);
  return { value, repairs: state.repairs, written };
}

interface State {
  readonly repairs: Repair[];
  /** Keys as written, by the canonical path that they end, as JSON. */
  readonly renamed: Map<string, string>;
}

interface Place {
  readonly canonical: KeyPath;
  readonly written: KeyPath;
  readonly state: State;
}

const words: Readonly<Record<string, boolean>> = {
  yes: true,
  on: true,
  true: true,
  no: false,
  off: false,
  false: false,
};

function read(value: unknown, schema: Schema, place: Place): unknown {
  const def = innermost(schema);
  const { written, state } = place;
  switch (def.type) {
    case "object":
      return isRecord(value) ? readObject(value, def, place) : value;
    case "record": {
      if (!isRecord(value)) return value;
      const isText = innermost(def.valueType).type === "string";
      const members = Object.entries(value).map(([key, member]) => {
        const given = isText && member === null ? "" : member;
        return [key, read(given, def.valueType, under(place, key, key))] as const;
      });
      return Object.fromEntries(members);
    }
    case "array":
      return Array.isArray(value)
        ? value.map((item: unknown, index) => read(item, def.element, under(place, index, index)))
        : value;
    case "union": {
      const option = "discriminator" in def ? undefined : optionFor(value, def.options);
      return option === undefined ? value : read(value, option, place);
    }
    case "string":
      if (typeof value !== "number" && typeof value !== "boolean") return value;
      state.repairs.push({ kind: "number-as-text", path: written });
      return String(value);
    case "boolean": {
      const meant = typeof value === "string" ? words[value.toLowerCase()] : undefined;
      if (meant === undefined) return value;
      state.repairs.push({ kind: "text-as-boolean", path: written });
      return meant;
    }
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
    // A key written in another case gives way to the exact one.
    const canonical =
      known.includes(key) || others !== undefined
        ? key
        : known.find((each) => each.toLowerCase() === key.toLowerCase() && !Object.hasOwn(value, each));
    const schema = known.includes(canonical ?? "") ? shape[canonical ?? ""] : others;
    if (canonical === undefined || schema === undefined)
      place.state.repairs.push({ kind: "unknown-key", path: [...place.written, key], known });
    else if (member !== null && member !== undefined)
      members.push([canonical, read(member, schema, under(place, canonical, key))]);
  }
  return Object.fromEntries(members);
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
  return isJsonObject(value as Json);
}

function under({ canonical, written, state }: Place, key: string | number, as: string | number): Place {
  const path = [...canonical, key];
  if (key !== as) state.renamed.set(JSON.stringify(path), String(as));
  return { canonical: path, written: [...written, as], state };
}
