import type * as z from "zod";
import type { Diagnostic } from "../errors/error.ts";
import { formatLocation } from "../errors/format-location.ts";
import { didYouMean } from "./did-you-mean.ts";
import { formatKeyPath, type KeyPath } from "./key-path.ts";
import { readLeniently, type Repair } from "./lenient-document.ts";
import { placeProblems } from "./place-problems.ts";
import type { Locate, Problem } from "./problem.ts";
import { mostProblems, validate } from "./validate.ts";
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
