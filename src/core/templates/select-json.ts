import {
  type FilterFunction,
  FunctionExpressionType,
  jsonpath,
  JSONPathEnvironment,
  type JSONPathNode,
  type JSONPathQuery,
} from "json-p3";
import { McpvalsError } from "../errors/error.ts";
import { isJsonObject, type Json, type KeyPath, valueAt } from "../formats/json.ts";
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
    const reason = cause instanceof Error ? cause.message : String(cause);
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
let environment: JSONPathEnvironment | undefined;

/** Throws what the library throws for a path that is not valid. */
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

/** All at once, the library would pass long lists as arguments, which exhausts the stack. */
function begin(query: JSONPathQuery, value: Json): IterableIterator<JSONPathNode> {
  left = mostSteps;
  return query.lazyQuery(value as Parameters<JSONPathQuery["query"]>[0]);
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
      const { value } = node;
      const members = isFilter && typeof value === "object" && value !== null ? Object.keys(value).length : 0;
      spend(perPlace + members);
      const found = resolve(node);
      spend(found.length * perPlace);
      return found;
    };
    if (isFilter) for (const { path } of queriesWithin(selector.expression)) bound(path);
  }
}

type FilterQuery = InstanceType<typeof jsonpath.expressions.FilterQuery>;

/** The paths in the expression of a filter. */
function queriesWithin(expression: unknown): readonly FilterQuery[] {
  if (expression instanceof jsonpath.expressions.FilterQuery) return [expression];
  const isPart = Array.isArray(expression) || expression instanceof jsonpath.expressions.FilterExpression;
  return isPart ? Object.values(expression).flatMap(queriesWithin) : [];
}

/** The library's own `match` and `search` use an engine that a pattern could hang. */
function createEnvironment(): JSONPathEnvironment {
  const created = new JSONPathEnvironment();
  // `..` asks for the greatest depth at every place that it comes to.
  Object.defineProperty(created, "maxRecursionDepth", {
    get: () => {
      spend(1);
      return deepest;
    },
  });
  const whole = (pattern: string): string => String.raw`\A(?:${pattern})\z`;
  created.functionRegister.set("match", patternFunction(whole));
  created.functionRegister.set("search", patternFunction(String));
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

/** How far a path leads that selects nothing. */
export interface PathEnd {
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
  /** Whether it ends only where it could lead to several places, or at its last part: its singular part exists. */
  readonly isSettled: boolean;
}

/** Values that are enough to show what is there instead. */
const mostNearest = 3;

/** How far a path leads in a value in which it selects nothing. */
export function pathEnd(value: Json, path: string): PathEnd {
  return follow(path, (query) => {
    const { segments } = query;
    let length = segments.length;
    let values: readonly Json[];
    do {
      length -= 1;
      values = firstOf(begin(beginning(query, length), value), mostNearest);
    } while (values.length === 0 && length > 0);
    const wants = segments.map((segment) => wantsOf(query, segment));
    const firstPlural = wants.indexOf("some");
    return {
      path: written(beginning(query, length)),
      missing: written(beginning(query, length + 1)),
      values,
      wants: wants[length] ?? "some",
      names: (segments[length]?.selectors ?? []).flatMap((selector) => nameOf(selector) ?? []),
      isOneWay: firstPlural === -1 || length <= firstPlural,
      isSettled: length >= (firstPlural === -1 ? segments.length - 1 : firstPlural),
    };
  });
}

/** The first parts of a path. */
function beginning(query: JSONPathQuery, length: number): JSONPathQuery {
  return new jsonpath.JSONPathQuery(query.environment, query.segments.slice(0, length));
}

type Segment = JSONPathQuery["segments"][number];

function nameOf(selector: Segment["selectors"][number] | undefined): string | undefined {
  return selector instanceof jsonpath.selectors.NameSelector ? selector.name : undefined;
}

function wantsOf({ environment: parent }: JSONPathQuery, segment: Segment): PathEnd["wants"] {
  if (!new jsonpath.JSONPathQuery(parent, [segment]).singularQuery()) return "some";
  return nameOf(segment.selectors[0]) === undefined ? "entry" : "member";
}

function written(query: JSONPathQuery): string {
  return query.toString().replaceAll(/\['([A-Za-z_]\w*)'\]/g, ".$1");
}

function firstOf(nodes: Iterable<JSONPathNode>, most: number): readonly Json[] {
  const found: Json[] = [];
  for (const node of nodes) if (found.push(node.value as Json) === most) break;
  return found;
}

/** A name that a part of a path looks for, and the values that may have it, the first of them. */
export interface Lookup {
  readonly name: string;
  readonly holders: readonly Json[];
}

/** Values and members of values in which names are looked for. */
const mostLooked = 200;

/** The names that a path looks for among others, in filters and lists of names. */
export function lookupsIn(value: Json, path: string): readonly Lookup[] {
  return follow(path, (query) =>
    query.segments.flatMap(({ selectors }, index) => {
      const holders = (): readonly Json[] => firstOf(begin(beginning(query, index), value), mostLooked);
      return selectors.flatMap((selector) => {
        const name = selectors.length > 1 ? nameOf(selector) : undefined;
        if (name !== undefined) return [{ name, holders: holders() }];
        if (!(selector instanceof jsonpath.selectors.FilterSelector)) return [];
        return queriesWithin(selector.expression).flatMap((inner) => {
          const isRelative = inner instanceof jsonpath.expressions.RelativeQuery;
          return namesOnWay(inner.path, isRelative ? holders().flatMap(membersOf) : [value]);
        });
      });
    }),
  );
}

function namesOnWay({ segments }: JSONPathQuery, start: readonly Json[]): readonly Lookup[] {
  let holders = start.slice(0, mostLooked);
  return segments.flatMap(({ selectors }) => {
    const name = selectors.length === 1 ? nameOf(selectors[0]) : undefined;
    const looked = holders;
    holders = (
      name === undefined
        ? looked.flatMap(membersOf)
        : looked.flatMap((holder) => {
            const member = isJsonObject(holder) ? (valueAt(holder, [name]) as Json | undefined) : undefined;
            return member === undefined ? [] : [member];
          })
    ).slice(0, mostLooked);
    return name === undefined ? [] : [{ name, holders: looked }];
  });
}

function membersOf(value: Json): readonly Json[] {
  return typeof value === "object" && value !== null ? Object.values(value).slice(0, mostLooked) : [];
}

/** The members that some paths lead to, by the object or list that has them, and whether one leads to the value itself. */
function membersAt(
  value: Json,
  paths: readonly string[],
): { readonly isWhole: boolean; readonly isTaken: (holder: object, key: string | number) => boolean } {
  const places = paths.flatMap((path) => selectJson(value, path).places);
  const taken = Map.groupBy(places, (place) => valueAt(value, place.slice(0, -1)));
  const keys = new Map(
    [...taken].map(([holder, all]) => [holder, new Set(all.map((place) => place.at(-1)))]),
  );
  return {
    isWhole: places.some((place) => place.length === 0),
    isTaken: (holder, key) => keys.get(holder)?.has(Array.isArray(holder) ? Number(key) : key) === true,
  };
}

/**
 * A JSON value without the places that some paths (RFC 9535) lead to: members of objects and entries of lists are taken
 * out; the value itself cannot be. Throws `task/json-path`.
 */
export function withoutPaths(value: Json, paths: readonly string[]): Json {
  if (paths.length === 0) return value;
  const { isTaken } = membersAt(value, paths);
  const copy = (each: Json): Json => {
    if (typeof each !== "object" || each === null) return each;
    const rest = Object.entries(each).filter(([key]) => !isTaken(each, key));
    const members = rest.map(([key, member]) => [key, copy(member as Json)] as const);
    return Array.isArray(each) ? members.map(([, member]) => member) : Object.fromEntries(members);
  };
  return copy(value);
}

/**
 * Whether some paths take out all that a value could be compared by: every text, number and empty list or object that is
 * in it. Of an empty list or object, whether they take out whatever such a one may have. Throws `task/json-path`.
 */
export function leavesNothing(value: Json, paths: readonly string[]): boolean {
  if (paths.length === 0) return false;
  const compared = hasMembers(value) || typeof value !== "object" || value === null ? value : filled(value);
  const { isWhole, isTaken } = membersAt(compared, paths);
  const isGone = (each: Json): boolean =>
    hasMembers(each) &&
    Object.entries(each).every(([key, member]) => isTaken(each, key) || isGone(member as Json));
  return isWhole || isGone(compared);
}

function hasMembers(value: Json): value is Json & object {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

/** A list, or an object, with what no path can name but by chance. */
function filled(value: object): Json {
  const names = Array.from({ length: 20 }, (_, index) => `\uE000${index}`);
  return Array.isArray(value) ? names : Object.fromEntries(names.map((name) => [name, name]));
}
