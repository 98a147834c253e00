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
import { compilePattern } from "./pattern.ts";

/** What a path leads to; `singular` when it can lead to one place at most, by its own form. */
export interface Selection {
  readonly values: readonly Json[];
  /** Where each value stands. */
  readonly places: readonly KeyPath[];
  readonly singular: boolean;
}

/**
 * Reads a path in a JSON value (RFC 9535; a leading `.` or none is taken as `$.`). Throws `task/json-path` for a path
 * that is not valid, and for one that cannot be followed in this value: after too many steps, where it would go on for hours,
 * and for values that are too deep. So do the other functions here.
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

/** Paths that are kept compiled; steps that poll use the same few again and again. */
const mostKept = 100;
const kept = new Map<string, JSONPathQuery>();

/** Reads a path of RFC 9535. Throws what the library throws for one that is not valid. */
function compile(path: string): JSONPathQuery {
  const known = kept.get(path);
  if (known !== undefined) return known;
  environment ??= createEnvironment();
  const query = environment.compile(path);
  bound(query);
  const [oldest] = kept.keys();
  if (kept.size >= mostKept && oldest !== undefined) kept.delete(oldest);
  kept.set(path, query);
  return query;
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

/** Places that are looked at for one path. Nested `..` and filters in filters look at the same places again and again. */
const mostSteps = 3_000_000;
/** Documents are at most so deep; more would exhaust the stack. */
const deepest = 2000;
/** So many levels of a value take the time of a step, since a place knows its whole way. */
const levelsPerStep = 16;
/** A pattern passes so many characters in the time of a step. */
const charactersPerStep = 20;

/** Steps that are left; a query is followed to its end before another one begins. */
let left = 0;
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
    const holders = (): readonly Json[] => firstOf(begin(beginning(query, index), root), mostLooked);
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
  let holders = start.slice(0, mostLooked);
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
    holders = holders.slice(0, mostLooked);
  }
}

/** The values that are looked at of an object or a list. */
export function membersOf(value: Json): readonly Json[] {
  return typeof value === "object" && value !== null ? Object.values(value).slice(0, mostLooked) : [];
}

function written(query: JSONPathQuery): string {
  return query.toString().replaceAll(/\['([A-Za-z_]\w*)'\]/g, ".$1");
}

/** All at once, the library would pass long lists as arguments, which exhausts the stack. */
function begin(query: JSONPathQuery, value: Json): IterableIterator<JSONPathNode> {
  left = mostSteps;
  return query.lazyQuery(value as Parameters<JSONPathQuery["query"]>[0]);
}

/** Values that are enough to show what is there instead. */
const mostNearest = 3;

/** Values and members of values in which names are looked for. */
const mostLooked = 200;

function firstOf(nodes: Iterable<JSONPathNode>, most = mostNearest): readonly Json[] {
  const found: Json[] = [];
  for (const node of nodes) {
    found.push(node.value as Json);
    if (found.length === most) break;
  }
  return found;
}

function spend(steps: number): void {
  left -= steps;
  if (left < 0) throw new Error(`it would look at more than ${mostSteps} places`);
}

/** Lets every part of a query, those inside its filters too, count what it looks at. */
function bound({ segments }: JSONPathQuery): void {
  for (const selector of segments.flatMap((segment) => segment.selectors)) {
    const resolve = selector.resolve.bind(selector);
    const isFilter = selector instanceof jsonpath.selectors.FilterSelector;
    selector.resolve = (node) => {
      const perPlace = 1 + Math.floor(node.location.length / levelsPerStep);
      spend(isFilter ? perPlace + sizeOf(node.value) : perPlace);
      const found = resolve(node);
      spend(found.length * perPlace);
      return found;
    };
    if (isFilter) boundWithin(selector.expression);
  }
}

function boundWithin(expression: object): void {
  if (expression instanceof jsonpath.JSONPathQuery) return bound(expression);
  const isPart = Array.isArray(expression) || expression instanceof jsonpath.expressions.FilterExpression;
  if (!isPart) return;
  for (const part of Object.values(expression) as unknown[]) {
    if (typeof part === "object" && part !== null) boundWithin(part);
  }
}

function sizeOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

/** The library's own `match` and `search` use an engine that a pattern could hang. */
function createEnvironment(): JSONPathEnvironment {
  const created = new JSONPathEnvironment();
  // `..` asks for the greatest depth at every place that it comes to.
  Object.defineProperty(created, "maxRecursionDepth", {
    get() {
      spend(1);
      return deepest;
    },
  });
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
      spend(Math.ceil(text.length / charactersPerStep));
      return compilePattern(complete(pattern)).test(text);
    },
  };
}
