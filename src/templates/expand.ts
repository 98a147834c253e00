import { McpvalsError } from "../base/error.ts";
import type { Json } from "../base/json.ts";
import { maxExpansionLength } from "../base/limits.ts";
import { TextRoom } from "../base/text-room.ts";
import { shortened } from "../base/visible-text.ts";
import { type FindPlace, inText, inWantedText } from "./places.ts";
import { selectJson } from "./select-json.ts";
import { placeInShell, type ShellText } from "./shell.ts";
import {
  type Expression,
  type Filter,
  isTrustedRoot,
  parseTemplate,
  type Resolve,
  type Scope,
  type TemplatePart,
} from "./template.ts";

const plainExpander: Expander = {
  text: (template) => template,
  json: (value) => value,
  placed: (template) => template,
  wanted: (template) => template,
  shell: (text) => ({ text, variables: {} }),
  trusts: () => true,
};

/** An expander for a scope, with room for one step; without a scope, texts stay as they are. */
export function expanderOf(scope: Scope | undefined): Expander {
  return scope === undefined ? plainExpander : new ScopeExpander(scope);
}

/** Replaces the expressions in texts and JSON of one step. A value that is not text is written as JSON. */
export type Expander = Pick<ScopeExpander, "text" | "json" | "placed" | "wanted" | "shell" | "trusts">;

class ScopeExpander {
  readonly #scope: Scope;
  /** For all texts together. */
  readonly #room: TextRoom;

  constructor(scope: Scope, room: TextRoom = templateRoom()) {
    this.#scope = scope;
    this.#room = room;
  }

  /**
   * Values stand in it as they are. Throws `task/template` for a name that a root does not have, for a filter that cannot be
   * applied, and for more than there is room for; so do the others.
   */
  readonly text = (template: string): string => this.placed(template, inText);

  /** Values from outside are written as their place asks. Throws `task/untrusted-value` where none can be, `task/unfit-value` for one that cannot. */
  readonly placed = (template: string, findPlace: FindPlace): string => {
    let text = "";
    for (const part of this.#parse(template)) {
      if (typeof part === "string") text += this.#room.take(part);
      else {
        const value = written(valueOf(part, this.#scope));
        const placed = this.#isUntrusted(part, value) ? findPlace(text, part.text).write(value) : value;
        text += this.#room.take(placed);
      }
    }
    return text;
  };

  /**
   * Every text of a JSON value; keys stay as they are. A text that is one single expression with the filter `json` becomes the
   * JSON value itself, any other stays a text.
   */
  readonly json = (value: Json): Json => {
    if (typeof value !== "string") return mapJson(value, this.json);
    const [only, ...others] = this.#parse(value);
    if (others.length > 0 || typeof only !== "object" || only.filter?.kind !== "json")
      return this.text(value);
    const found = valueOf(only, this.#scope);
    this.#room.take(written(found));
    return found;
  };

  /** What something has to contain. Throws `task/unfit-value` for what templates made empty. */
  readonly wanted = (template: string): string => {
    const text = this.placed(template, inWantedText);
    if (text.trim() !== "" || text === template) return text;
    const message = `${template} is empty, so the expectation would prove nothing`;
    throw new McpvalsError("task/unfit-value", message);
  };

  /** Values from outside become variables. Throws `task/untrusted-value` where even their values would be run. */
  readonly shell = (template: string): ShellText =>
    placeInShell(
      this.#parse(template).map((part) => {
        if (typeof part === "string") return this.#room.take(part);
        // A value that becomes a variable is quoted anyway.
        const isQuoted = part.filter?.kind === "sh" && !this.#isTrusted(part);
        const { filter: _, ...plain } = part;
        const value = this.#room.take(written(valueOf(isQuoted ? plain : part, this.#scope)));
        if (!this.#isUntrusted(part, value)) return value;
        refuseEmptySearch(template, part.text, value);
        return { expression: part.text, value };
      }),
    );

  /** Whether no value in it is from outside, wherever it stands. */
  readonly trusts = (value: Json): boolean => {
    if (typeof value === "string")
      return this.#parse(value).every((part) => typeof part === "string" || this.#isTrusted(part));
    return typeof value !== "object" || value === null || Object.values(value).every(this.trusts);
  };

  #parse(template: string): readonly TemplatePart[] {
    return parseTemplate(template, (root) => this.#scope.has(root));
  }

  #isTrusted({ root }: Expression): boolean {
    return isTrustedRoot(root, this.#scope.get(root));
  }

  /** Whether a value is from outside, and the author does not ask for it as it is. What stands for no value gave itself. */
  #isUntrusted(part: Expression, value: string): boolean {
    return !this.#isTrusted(part) && part.filter?.kind !== "raw" && value !== part.text;
  }
}

function mapJson(value: Json, change: (inner: Json) => Json): Json {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(change);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, change(member)]));
}

function templateRoom(): TextRoom {
  const message = `the templates give more than ${maxExpansionLength} characters together`;
  const hint =
    "Values that use each other more than once grow with each of them; keep large values in files.";
  return new TextRoom(() => new McpvalsError("task/template", message, { hint }));
}

/**
 * The scope of a check: an empty `{agent.output}` throws `task/unfit-value`, since nothing can be found in it and it would be
 * found in everything.
 */
export function checkingScope(scope: Scope): Scope {
  const agent = scope.get("agent");
  if (agent === undefined || agent.trusted === true) return scope;
  const nonEmpty: Resolve = (names, variant) => {
    const value = agent(names, variant);
    if (names.join(".") !== "output" || typeof value !== "string" || value.trim() !== "") return value;
    throw new McpvalsError("task/unfit-value", "the agent said nothing, so {agent.output} proves nothing");
  };
  return new Map([...scope, ["agent", nonEmpty]]);
}

function valueOf({ text, root, names, variant, filter }: Expression, scope: Scope): Json {
  const value = scope.get(root)?.(names, variant);
  if (value !== undefined) return filter === undefined ? value : applyFilter(value, filter, text);
  // A root without a value of its own, alone in braces, is text: `{env}`.
  if (names.length === 0 && variant === undefined) return text;
  throw new McpvalsError("task/template", `${text} refers to nothing`, {
    hint: "Check the name, and that the step before it gave such an output; {{ writes a literal brace.",
  });
}

/** What may stand after `|`. */
export const filtersHint = "Filters are sh, raw and json, json with a path: {… | json $.items[0].name}.";

function applyFilter(value: Json, filter: Filter, expression: string): Json {
  switch (filter.kind) {
    case "sh":
      return `'${written(value).replaceAll("'", String.raw`'\''`)}'`;
    case "raw":
      return value;
    case "json": {
      const whole = typeof value === "string" ? parseJson(value, expression) : value;
      const { values, singular } = selectJson(whole, filter.path);
      if (!singular) return values;
      const [only] = values;
      if (only !== undefined) return only;
      const shown = preview(written(value));
      throw new McpvalsError("task/template", `${expression}: the path leads to nothing in ${shown}`);
    }
    case "unknown": {
      const message = `${expression}: there is no filter "${filter.text}"`;
      throw new McpvalsError("task/template", message, { hint: filtersHint });
    }
  }
}

function parseJson(text: string, expression: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    const message = `${expression}: the value is not JSON: ${preview(text)}`;
    throw new McpvalsError("task/template", message, { cause });
  }
}

/** A part of a text is not shown: it could be a part of a secret, which would not be recognised any more. */
function preview(text: string): string {
  return text.length <= 200 ? JSON.stringify(text) : `a text of ${text.length} characters`;
}

function written(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Search programs, which match everything when they search for an empty text. */
const search = /(?:^|[\s;&|(`"'/])(?:[efz]?grep|rg|ag|ack|findstr|select-string)(?=[\s;&|)]|$)/i;

/** Throws McpvalsError `task/unfit-value` for a value from outside that is empty, in or for a program that may look for it. */
export function refuseEmptySearch(program: string, expression: string, value: string): void {
  if (value.trim() !== "" || !search.test(program)) return;
  const message = `${expression} is empty, and a search for an empty text always succeeds`;
  throw new McpvalsError("task/unfit-value", message);
}

function parseOrNull(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return null; // the caller reports it, with where the text is from
  }
}

/**
 * The items that a `foreach` goes through: a list, or a text that is one in JSON. `template` is what stands in the file.
 * Throws `task/template` for anything else.
 */
export function loopItems(value: Json, template: Json): readonly Json[] {
  const list = typeof value === "string" ? parseOrNull(value) : value;
  if (Array.isArray(list)) return list;
  const shown = JSON.stringify(shortened(written(value), 200));
  const message = `foreach needs a JSON list, but ${JSON.stringify(template)} gives ${shown}`;
  const hint =
    'Give a list, or a template that yields one, such as "{steps.ID.outputs.NAME | json $.items}".';
  throw new McpvalsError("task/template", message, { hint });
}

export interface EnvSources {
  /** From the command line; they win over everything. */
  readonly overrides: Readonly<Record<string, string>>;
  /** Templates of the task, which may use each other in any order. */
  readonly declared: Readonly<Record<string, string>>;
  readonly shell: Readonly<Record<string, string>>;
}

/**
 * Makes the root `env`: the command line's value, else the task's, else the shell's. A value of the task that uses its own
 * name means the shell's. `scope` is what the task's values may use besides `env`. The result throws `task/template` for
 * values that depend on each other in a cycle, and for those that are too long together.
 */
export function envRoot({ overrides, declared, shell }: EnvSources, scope: Scope): Resolve {
  const known = new Map<string, string>();
  const room = templateRoom();
  const valueOf = (name: string, within: readonly string[]): string | undefined => {
    if (Object.hasOwn(overrides, name)) return overrides[name];
    const own = Object.hasOwn(declared, name) ? declared[name] : undefined;
    if (own === undefined || within.at(-1) === name)
      return Object.hasOwn(shell, name) ? shell[name] : undefined;
    const before = known.get(name);
    if (before !== undefined) return before;
    if (within.includes(name)) {
      const message = `the values of env depend on each other in a cycle: ${[...within, name].join(" → ")}`;
      const hint =
        "Let one of them depend on none of the others; a value may use the shell's value of its own name.";
      throw new McpvalsError("task/template", message, { hint });
    }
    const inner = new Map([...scope, ["env", variables([...within, name])] as const]);
    const value = new ScopeExpander(inner, room).text(own);
    known.set(name, value);
    return value;
  };
  const variables =
    (within: readonly string[]): Resolve =>
    ([name, ...others], variant) =>
      name === undefined || others.length > 0 || variant !== undefined ? undefined : valueOf(name, within);
  return variables([]);
}
