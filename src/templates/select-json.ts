import { McpvalsError, messageOf } from "../base/error.ts";
import {
  type FilterFunction,
  FunctionExpressionType,
  jsonpath,
  JSONPathEnvironment,
  type JSONPathNode,
  type JSONPathQuery,
} from "json-p3";
import type { Json, KeyPath } from "../base/json.ts";
import { compilePattern, madeOnce } from "./pattern.ts";

/** What a path leads to; `singular` when it can lead to one place at most, by its own form. */
export interface Selection {
  readonly values: readonly Json[];
  /** Where each value stands. */
  readonly places: readonly KeyPath[];
  readonly singular: boolean;
}

/**
 * Reads a path in a JSON value (RFC 9535; a leading `.` or none is taken as `$.`). Throws `task/json-path` for a path
 * that is not valid, and for a value that is too large or too deep to be followed. So do the other functions here.
 */
export function selectJson(value: Json, path: string): Selection {
  return follow(path, (query) => {
    const nodes = [...begin(query, value)];
    return {
      values: nodes.map((node) => node.value as Json),
      places: nodes.map((node) => node.location),
      singular: query.singularQuery(),
    };
  });
}

function follow<T>(path: string, work: (query: JSONPathQuery) => T): T {
  const query = failingAs("is not a valid JSON path", path, () => compile(completePath(path)));
  return failingAs("cannot be followed", path, () => work(query));
}

function failingAs<T>(what: string, path: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    const reason = messageOf(cause);
    throw new McpvalsError("task/json-path", `${JSON.stringify(path)} ${what}: ${reason}`, {
      cause,
      hint: "Paths follow RFC 9535, such as $.items[0].name or $.items[?@.ready == true].",
    });
  }
}

/** A path as RFC 9535 wants it, with `$` in front. */
export function completePath(path: string): string {
  const trimmed = path.trim();
  if (trimmed.startsWith("$")) return trimmed;
  if (trimmed === "" || trimmed === ".") return "$";
  return trimmed.startsWith(".") || trimmed.startsWith("[") ? `$${trimmed}` : `$.${trimmed}`;
}

const queries = new Map<string, JSONPathQuery>();

/** Reads a path of RFC 9535. Throws what the library throws for one that is not valid. */
function compile(path: string): JSONPathQuery {
  return madeOnce(queries, path, (text) => (environment ??= createEnvironment()).compile(text));
}

/** Where the way of a path ends that leads nowhere. */
export interface WayEnd {
  /** The longest beginning of the path that leads anywhere. */
  readonly path: string;
  /** The same with the part that leads nowhere. */
  readonly missing: string;
  /** What `path` leads to, the first few of them. */
  readonly values: readonly Json[];
  /** What it looks for there: the name of a member, an entry by its number, or some members or entries of all. */
  readonly wants: "member" | "entry" | "some";
  /** The names of members that the missing part looks for. */
  readonly names: readonly string[];
  /** Whether `path` can lead to one place only. */
  readonly isOneWay: boolean;
  /** Whether the way ends only where it could lead to several places, or at its last part: it is there as far as it is one. */
  readonly isSettled: boolean;
}

/** A name that a part of a path looks for, and the values that may have it, the first of them. */
export interface Lookup {
  readonly name: string;
  readonly holders: readonly Json[];
}

/** Values, at any depth, that a value may have in which a path is followed. */
const maxValues = 500_000;

let environment: JSONPathEnvironment | undefined;

/** How far the way of a path goes in a value in which it leads nowhere. */
export function wayEnd(value: Json, path: string): WayEnd {
  return follow(path, (query) => {
    const { segments } = query;
    let length = segments.length;
    let values: readonly Json[] = [];
    while (values.length === 0 && length > 0) {
      length -= 1;
      values = firstOf(begin(beginning(query, length), value));
    }
    const wants = segments.map((segment) => wantsOf(query, segment));
    const firstPlural = wants.indexOf("some");
    const selectors = segments[length]?.selectors ?? [];
    return {
      path: written(beginning(query, length)),
      missing: written(beginning(query, length + 1)),
      values,
      wants: wants[length] ?? "some",
      names: selectors.flatMap((selector) =>
        selector instanceof jsonpath.selectors.NameSelector ? [selector.name] : [],
      ),
      isOneWay: firstPlural === -1 || length <= firstPlural,
      isSettled: length >= (firstPlural === -1 ? segments.length - 1 : firstPlural),
    };
  });
}

/** The first parts of a path. */
function beginning(query: JSONPathQuery, length: number): JSONPathQuery {
  return new jsonpath.JSONPathQuery(query.environment, query.segments.slice(0, length));
}

function wantsOf(
  { environment: parent }: JSONPathQuery,
  segment: JSONPathQuery["segments"][number],
): WayEnd["wants"] {
  if (!new jsonpath.JSONPathQuery(parent, [segment]).singularQuery()) return "some";
  return segment.selectors[0] instanceof jsonpath.selectors.NameSelector ? "member" : "entry";
}

/** The names that a path looks for among others, in filters and lists of names. */
export function lookupsIn(value: Json, path: string): readonly Lookup[] {
  return follow(path, (query) => [...lookupsOf(query, value)]);
}

function* lookupsOf(query: JSONPathQuery, root: Json): Generator<Lookup> {
  for (const [index, { selectors }] of query.segments.entries()) {
    const isList = selectors.length > 1;
    const holders = (): readonly Json[] => firstOf(begin(beginning(query, index), root), maxLooked);
    for (const selector of selectors) {
      if (selector instanceof jsonpath.selectors.NameSelector && isList)
        yield { name: selector.name, holders: holders() };
      if (selector instanceof jsonpath.selectors.FilterSelector)
        for (const inner of queriesWithin(selector.expression)) {
          const isRelative = inner instanceof jsonpath.expressions.RelativeQuery;
          yield* namesOnWay(inner.path, isRelative ? holders().flatMap(membersOf) : [root]);
        }
    }
  }
}

type FilterQuery = InstanceType<typeof jsonpath.expressions.FilterQuery>;

/** The paths in the expression of a filter. */
function queriesWithin(expression: unknown): readonly FilterQuery[] {
  if (typeof expression !== "object" || expression === null) return [];
  if (expression instanceof jsonpath.expressions.FilterQuery) return [expression];
  const isPart = Array.isArray(expression) || expression instanceof jsonpath.expressions.FilterExpression;
  return isPart ? Object.values(expression).flatMap(queriesWithin) : [];
}

function* namesOnWay({ segments }: JSONPathQuery, start: readonly Json[]): Generator<Lookup> {
  let holders = start.slice(0, maxLooked);
  for (const { selectors } of segments) {
    const [first, ...others] = selectors;
    if (first instanceof jsonpath.selectors.NameSelector && others.length === 0) {
      const { name } = first;
      yield { name, holders };
      holders = holders.flatMap((holder) =>
        Object.entries(Array.isArray(holder) ? {} : (holder ?? {})).flatMap(([key, each]) =>
          key === name ? [each as Json] : [],
        ),
      );
    } else holders = holders.flatMap(membersOf);
    holders = holders.slice(0, maxLooked);
  }
}

/** The values that are looked at of an object or a list. */
export function membersOf(value: Json): readonly Json[] {
  return typeof value === "object" && value !== null ? Object.values(value).slice(0, maxLooked) : [];
}

function written(query: JSONPathQuery): string {
  return query.toString().replaceAll(/\['([A-Za-z_]\w*)'\]/g, ".$1");
}

/** All at once, the library would pass long lists as arguments, which exhausts the stack. */
function begin(query: JSONPathQuery, value: Json): IterableIterator<JSONPathNode> {
  refuseLarge(value);
  return query.lazyQuery(value as Parameters<JSONPathQuery["query"]>[0]);
}

/** Values that are enough to show what is there instead. */
const maxNearest = 3;

/** Values and members of values in which names are looked for. */
const maxLooked = 200;

function firstOf(nodes: Iterable<JSONPathNode>, most = maxNearest): readonly Json[] {
  const found: Json[] = [];
  for (const node of nodes) {
    found.push(node.value as Json);
    if (found.length === most) break;
  }
  return found;
}

/** Throws for a value in which a path such as `$..a` would take minutes. */
function refuseLarge(value: Json): void {
  let count = 0;
  const open: Json[] = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    count += 1;
    if (count > maxValues) throw new Error(`the value has more than ${maxValues} values`);
    if (typeof next === "object" && next !== null) for (const item of Object.values(next)) open.push(item);
  }
}

/** Levels of a value in which a path is followed; more would exhaust the stack. Files and outputs of programs may be deeper than messages. */
const maxDepth = 2000;

/** The library's own `match` and `search` use an engine that a pattern could hang. */
function createEnvironment(): JSONPathEnvironment {
  const created = new JSONPathEnvironment({ maxRecursionDepth: maxDepth });
  const { functionRegister } = created;
  functionRegister.set(
    "search",
    patternFunction((pattern) => pattern),
  );
  functionRegister.set(
    "match",
    patternFunction((pattern) => String.raw`\A(?:${pattern})\z`),
  );
  return created;
}

function patternFunction(complete: (pattern: string) => string): FilterFunction {
  return {
    argTypes: [FunctionExpressionType.ValueType, FunctionExpressionType.ValueType],
    returnType: FunctionExpressionType.LogicalType,
    call(text: unknown, pattern: unknown) {
      if (typeof text !== "string" || typeof pattern !== "string") return false;
      return compilePattern(complete(pattern)).test(text);
    },
  };
}
