import { McpvalsError } from "../errors/error.ts";
import type { Json } from "../formats/model.ts";
import { shortened } from "../text/visible-text.ts";
import {
  type Expression,
  type Filter,
  isTrustedRoot,
  longestExpansion,
  parseTemplate,
  type Resolve,
  type Scope,
  TextRoom,
} from "./template.ts";
import { type FindPlace, inText, inWantedText } from "./places.ts";
import { selectJson } from "./select-json.ts";
import { placeInShell, type ShellText } from "./shell.ts";

/**
 * Replaces the expressions of a template. A value that is no text is written as JSON. Throws `task/template` for a name
 * that a root does not have, for a filter that cannot be applied, and for more than there is room for.
 */
export function expandText(template: string, scope: Scope, room: TextRoom = templateRoom()): string {
  return expandPlaced(template, { scope, room }, inText);
}

/** Replaces the expressions of a template; values from outside are written as their place asks. Throws what that throws. */
function expandPlaced(template: string, { scope, room }: Surroundings, findPlace: FindPlace): string {
  let text = "";
  for (const part of parseTemplate(template, (root) => scope.has(root))) {
    if (typeof part === "string") text += room.take(part);
    else {
      const value = written(valueOf(part, scope));
      text += room.take(isUntrusted(part, value, scope) ? findPlace(text, part.text).write(value) : value);
    }
  }
  return text;
}

/** What a text is expanded with. */
interface Surroundings {
  readonly scope: Scope;
  readonly room: TextRoom;
}

/**
 * Whether what an expression gave is a value from outside, and the author does not ask for it as it is. What stands for no
 * value gave itself.
 */
function isUntrusted({ text, root, filter }: Expression, value: string, scope: Scope): boolean {
  return !isTrustedRoot(root, scope.get(root)) && filter?.kind !== "raw" && value !== text;
}

/** The room for all texts that are expanded together. */
function templateRoom(): TextRoom {
  return new TextRoom(
    () =>
      new McpvalsError(
        "task/template",
        `the templates give more than ${longestExpansion} characters together`,
        {
          hint: "Values that use each other more than once grow with each of them; keep large values in files.",
        },
      ),
  );
}

/**
 * Replaces the expressions in every text of a JSON value; keys stay as they are. A text that is one single expression
 * with the filter `json` becomes the JSON value itself, any other stays a text.
 */
export function expandJson(value: Json, scope: Scope, room: TextRoom = templateRoom()): Json {
  if (typeof value === "string") return expandString(value, scope, room);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item: Json) => expandJson(item, scope, room));
  const members = Object.entries(value).map(
    ([key, member]) => [key, expandJson(member, scope, room)] as const,
  );
  return Object.fromEntries(members);
}

function expandString(text: string, scope: Scope, room: TextRoom): Json {
  const parts = parseTemplate(text, (root) => scope.has(root));
  const [only] = parts;
  if (parts.length === 1 && typeof only === "object" && only.filter?.kind === "json") {
    const value = valueOf(only, scope);
    room.take(written(value));
    return value;
  }
  return expandText(text, scope, room);
}

/** Replaces the expressions in texts and JSON of one step. */
export interface Expander {
  /** Values stand in it as they are. */
  readonly text: (template: string) => string;
  readonly json: (value: Json) => Json;
  /** Values from outside are written as their place asks. Throws `task/untrusted-value` where none can be, `task/unfit-value` for one that cannot. */
  readonly placed: (template: string, findPlace: FindPlace) => string;
  /** What something has to contain. Throws `task/unfit-value` for what templates made empty. */
  readonly wanted: (template: string) => string;
  /** Values from outside become variables. Throws `task/untrusted-value` where even their values would be run. */
  readonly shell: (template: string) => ShellText;
  /** Whether no value in it is from outside, wherever it stands. */
  readonly trusts: (value: Json) => boolean;
}

const plainExpander: Expander = {
  text: (template) => template,
  json: (value) => value,
  placed: (template) => template,
  wanted: (template) => template,
  shell: (text) => ({ text, variables: {} }),
  trusts: () => true,
};

/**
 * The scope of a check: an empty `{agent.output}` throws `task/unfit-value`, since nothing can be found in it and it would be
 * found in everything.
 */
export function checkingScope(scope: Scope): Scope {
  const agent = scope.get("agent");
  if (agent === undefined || agent.trusted === true) return scope;
  return new Map([...scope, ["agent", nonEmptyOutput(agent)]]);
}

function nonEmptyOutput(agent: Resolve): Resolve {
  return (names, variant) => {
    const value = agent(names, variant);
    if (names.join(".") !== "output" || typeof value !== "string" || value.trim() !== "") return value;
    throw new McpvalsError("task/unfit-value", "the agent said nothing, so {agent.output} proves nothing");
  };
}

/** An expander for a scope, with room for one step; without a scope, texts stay as they are. */
export function expanderOf(scope: Scope | undefined): Expander {
  if (scope === undefined) return plainExpander;
  const room = templateRoom();
  const surroundings = { scope, room };
  return {
    text: (template) => expandText(template, scope, room),
    json: (value) => expandJson(value, scope, room),
    placed: (template, findPlace) => expandPlaced(template, surroundings, findPlace),
    wanted: (template) => expandWanted(template, surroundings),
    shell: (template) => expandShell(template, surroundings),
    trusts: (value) => textsIn(value).every((text) => isTrustedText(text, scope)),
  };
}

function expandWanted(template: string, surroundings: Surroundings): string {
  const text = expandPlaced(template, surroundings, inWantedText);
  if (text.trim() !== "" || text === template) return text;
  throw new McpvalsError("task/unfit-value", `${template} is empty, so the expectation would prove nothing`);
}

function expandShell(template: string, { scope, room }: Surroundings): ShellText {
  const parts = parseTemplate(template, (root) => scope.has(root)).map((part) => {
    if (typeof part === "string") return room.take(part);
    // What becomes a variable is quoted anyway.
    const isQuoted = part.filter?.kind === "sh" && !isTrustedRoot(part.root, scope.get(part.root));
    const { filter: _, ...plain } = part;
    const value = room.take(written(valueOf(isQuoted ? plain : part, scope)));
    if (!isUntrusted(part, value, scope)) return value;
    refuseEmptySearch(template, part.text, value);
    return { expression: part.text, value };
  });
  return placeInShell(parts);
}

function isTrustedText(text: string, scope: Scope): boolean {
  return parseTemplate(text, (root) => scope.has(root)).every(
    (part) => typeof part === "string" || isTrustedRoot(part.root, scope.get(part.root)),
  );
}

/** Every text in a value. */
function textsIn(value: Json): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

function valueOf(expression: Expression, scope: Scope): Json {
  const value = scope.get(expression.root)?.(expression.names, expression.variant);
  if (value === undefined) return unresolved(expression);
  return expression.filter === undefined ? value : applyFilter(value, expression.filter, expression);
}

/** A root without a value of its own, alone in braces, is text: `{env}`. */
function unresolved(expression: Expression): string {
  if (expression.names.length === 0 && expression.variant === undefined) return expression.text;
  throw new McpvalsError("task/template", `${expression.text} refers to nothing`, {
    hint: "Check the name, and that the step before it gave such an output; {{ writes a literal brace.",
  });
}

/** What may stand after `|`. */
export const filtersHint = "Filters are sh, raw and json, json with a path: {… | json $.items[0].name}.";

function applyFilter(value: Json, filter: Filter, { text }: Expression): Json {
  switch (filter.kind) {
    case "sh":
      return quoteForShell(written(value));
    case "raw":
      return value;
    case "json": {
      const { values, singular } = selectJson(
        typeof value === "string" ? parseJson(value, text) : value,
        filter.path,
      );
      if (!singular) return values;
      const [only] = values;
      if (only !== undefined) return only;
      throw new McpvalsError(
        "task/template",
        `${text}: the path leads to nothing in ${preview(written(value))}`,
      );
    }
    case "unknown":
      throw new McpvalsError("task/template", `${text}: there is no filter "${filter.text}"`, {
        hint: filtersHint,
      });
  }
}

function parseJson(text: string, expression: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new McpvalsError("task/template", `${expression}: the value is not JSON: ${preview(text)}`, {
      cause,
    });
  }
}

/** A part of a text is not shown: it could be a part of a secret, which nobody could tell any more. */
function preview(text: string): string {
  return text.length <= 200 ? JSON.stringify(text) : `a text of ${text.length} characters`;
}

function written(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** One word for a POSIX shell, whatever the text holds. */
function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Search programs, which match everything when they search for an empty text. */
const search = /(?:^|[\s;&|(`"'/])(?:[efz]?grep|rg|ag|ack|findstr|select-string)(?=[\s;&|)]|$)/i;

/** Throws McpvalsError `task/unfit-value` for a value from outside that is empty, in or for a program that may look for it. */
export function refuseEmptySearch(program: string, expression: string, value: string): void {
  if (value.trim() !== "" || !search.test(program)) return;
  throw new McpvalsError(
    "task/unfit-value",
    `${expression} is empty, and a search for an empty text always succeeds`,
  );
}

/**
 * The items that a `foreach` goes through: a list, or a text that is one in JSON. `written` is what stands in the file.
 * Throws `task/template` for anything else.
 */
export function loopItems(value: Json, written: Json): readonly Json[] {
  const list = typeof value === "string" ? parsed(value) : value;
  if (Array.isArray(list)) return list;
  const shown = typeof value === "string" ? value : JSON.stringify(value);
  throw new McpvalsError(
    "task/template",
    `foreach needs a JSON list, but ${JSON.stringify(written)} gives ${JSON.stringify(shortened(shown, 200))}`,
    { hint: 'Give a list, or a template that yields one, such as "{steps.ID.outputs.NAME | json $.items}".' },
  );
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined; // said by the caller, who knows where the text is from
  }
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
    if (within.includes(name)) throw cycle([...within, name]);
    const inner: Scope = new Map([
      ...scope,
      [
        "env",
        ([next], variant) =>
          next === undefined || variant !== undefined ? undefined : valueOf(next, [...within, name]),
      ],
    ]);
    const value = expandText(own, inner, room);
    known.set(name, value);
    return value;
  };
  return (names, variant) => {
    const [name] = names;
    return name === undefined || names.length > 1 || variant !== undefined ? undefined : valueOf(name, []);
  };
}

function cycle(names: readonly string[]): McpvalsError {
  return new McpvalsError(
    "task/template",
    `the values of env depend on each other in a cycle: ${names.join(" → ")}`,
    {
      hint: "Let one of them depend on none of the others; a value may use the shell's value of its own name.",
    },
  );
}
