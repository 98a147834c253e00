import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import type { Problem } from "../problem.ts";
import { type InnerList, innerLists, plainKinds, type StepKind } from "./step-forms.ts";

/** Names that a dotted step may begin with. */
export interface DottedNames {
  /** Of imports, and of the eval's extensions. */
  readonly aliases: readonly string[];
  readonly servers: readonly string[];
}

/** A step as it stands in the file, before its body is checked. */
export interface StepView {
  readonly kind: StepKind;
  /** Of the whole step. */
  readonly path: KeyPath;
  /** Of what is behind its key. */
  readonly bodyPath: KeyPath;
  /** What is behind its key; a list of steps, or a step, became `{steps: […]}`. */
  readonly body: Json;
  /** Whether the body was a list or a step. */
  readonly isShort: boolean;
  /** The author's id, else its place, such as `verify[2]`. */
  readonly id: string;
  /** The author's id. */
  readonly ownId?: string;
  /** Of dotted steps: what is before and after the dot. */
  readonly first: string;
  readonly rest: string;
  readonly inner: Readonly<Record<InnerList, readonly StepView[]>>;
}

export interface ViewedSteps {
  readonly views: readonly StepView[];
  readonly problems: readonly Problem[];
}

export interface ViewStepsOptions extends DottedNames {
  /** Of the list. */
  readonly path: KeyPath;
  /** What ids made from places begin with. */
  readonly place: string;
}

/** Reads the steps of a list. What is no step is a problem and left out. */
export function viewSteps(list: unknown, options: ViewStepsOptions): ViewedSteps {
  const items: readonly Json[] = Array.isArray(list) ? list : [];
  const viewed = items.map((item, index) =>
    viewStep(item, { ...options, path: [...options.path, index], place: `${options.place}[${index}]` }),
  );
  return {
    views: viewed.flatMap(({ views }) => views),
    problems: viewed.flatMap(({ problems }) => problems),
  };
}

function viewStep(item: Json, options: ViewStepsOptions): ViewedSteps {
  const { path } = options;
  const key = onlyKey(item);
  if (key === undefined || !isJsonObject(item)) return { views: [], problems: [notOneKey(item, path)] };
  const kind = kindOf(key, options);
  if (kind === undefined) return { views: [], problems: [unknownStep(key, options)] };
  return viewBody(item[key] ?? null, key, { ...kind, options });
}

interface Kind {
  readonly kind: StepKind;
  readonly first: string;
  readonly rest: string;
}

function viewBody(
  written: Json,
  key: string,
  { options, ...kind }: Kind & { readonly options: ViewStepsOptions },
): ViewedSteps {
  const bodyPath = [...options.path, key];
  const { body, isShort } = completeBody(written, kind.kind);
  const ownId = isJsonObject(body) && typeof body["id"] === "string" ? body["id"] : undefined;
  const inner = innerLists.map((role) => {
    const path = isShort ? bodyPath : [...bodyPath, role];
    const holds = kind.kind === "group" || (role === "steps" && hasSteps(kind.kind));
    const list = holds && isJsonObject(body) ? body[role] : undefined;
    return [role, viewInner(list, written, { ...options, path, place: role })] as const;
  });
  const view: StepView = {
    ...kind,
    path: options.path,
    bodyPath,
    body,
    isShort,
    id: ownId ?? options.place,
    ...(ownId === undefined ? {} : { ownId }),
    inner: Object.fromEntries(inner.map(([role, { views }]) => [role, views])) as StepView["inner"],
  };
  return { views: [view], problems: inner.flatMap(([, { problems }]) => problems) };
}

/** The steps inside; those of `not` may be a single one, which then has the path of the body. */
function viewInner(list: Json | undefined, written: Json, options: ViewStepsOptions): ViewedSteps {
  const isSingle = Array.isArray(list) && list[0] === written;
  return isSingle
    ? viewStep(written, { ...options, place: `${options.place}[0]` })
    : viewSteps(list, options);
}

function onlyKey(item: Json): string | undefined {
  if (!isJsonObject(item)) return undefined;
  const [key, ...others] = Object.keys(item);
  return others.length === 0 ? key : undefined;
}

function notOneKey(item: Json, path: KeyPath): Problem {
  const where = formatKeyPath(path);
  if (!isJsonObject(item)) {
    const message = `${where} must be a step: an object with one key, its type`;
    return { code: "config/invalid-value", message, path, at: "value" };
  }
  const keys = Object.keys(item);
  const message = `${where} must have exactly one key, the type of the step, not ${keys.length === 0 ? "none" : keys.join(", ")}`;
  const types = keys.filter((key) => plainKinds.some((kind) => kind === key) || key.includes("."));
  return { code: "config/invalid-value", message, path, at: "value", hint: oneKeyHint(types) };
}

function oneKeyHint([type, second]: readonly string[]): string {
  if (type === undefined) return `Steps are ${plainKinds.join(", ")}.`;
  return second === undefined
    ? `Indent the other keys under ${type}.`
    : `${type} and ${second} are a step each: begin a new item with "-" before ${second}.`;
}

function kindOf(key: string, { aliases, servers }: DottedNames): Kind | undefined {
  const plain = plainKinds.find((kind) => kind === key);
  if (plain !== undefined) return { kind: plain, first: "", rest: "" };
  const split = (kind: StepKind, first: string): Kind => ({ kind, first, rest: key.slice(first.length + 1) });
  const alias = longestBefore(key, aliases);
  if (alias !== undefined) return split("operation", alias);
  const server = longestBefore(key, servers);
  return server === undefined ? undefined : split("call", server);
}

/** The longest of some names that a dot and more follow; names may have dots of their own. */
function longestBefore(key: string, names: readonly string[]): string | undefined {
  const end = key.endsWith(".") ? key.length - 2 : key.length;
  for (let dot = key.lastIndexOf(".", end); dot > -1; dot = key.lastIndexOf(".", dot - 1)) {
    const name = key.slice(0, dot);
    if (names.includes(name)) return name;
    if (dot === 0) return undefined;
  }
  return undefined;
}

function unknownStep(key: string, { path, aliases, servers }: ViewStepsOptions): Problem {
  const place = { path: [...path, key], at: "key" } as const;
  const dot = key.indexOf(".");
  if (dot === -1) {
    const message = `unknown step ${JSON.stringify(key.slice(0, 80))} in ${formatKeyPath(path)}`;
    return { code: "config/unknown-key", message, ...place, hint: suggestion(key, plainKinds, "steps") };
  }
  const first = key.slice(0, dot);
  const known = [...aliases, ...servers];
  if (known.includes(key.slice(0, -1))) {
    const message = `${JSON.stringify(key.slice(0, 80))} names no operation or tool`;
    return {
      code: "config/unknown-reference",
      message,
      ...place,
      hint: `Write it after the dot: ${key}NAME.`,
    };
  }
  const message = `no import and no server is named ${JSON.stringify(first.slice(0, 80))}`;
  const hint = suggestion(first, known, "imports and servers");
  return { code: "config/unknown-reference", message, ...place, hint };
}

function hasSteps(kind: StepKind): boolean {
  return kind === "foreach" || isList(kind);
}

function isList(kind: StepKind): boolean {
  return kind === "anyOf" || kind === "allOf" || kind === "not";
}

/** The long form of a body: lists of steps may stand for it, and in `not` one single step. */
function completeBody(body: Json, kind: StepKind): { readonly body: Json; readonly isShort: boolean } {
  if (!isList(kind)) return { body, isShort: false };
  if (Array.isArray(body)) return { body: { steps: body }, isShort: true };
  const isStep = kind === "not" && isJsonObject(body) && isOneStep(body);
  return isStep ? { body: { steps: [body] }, isShort: true } : { body, isShort: false };
}

function isOneStep(body: JsonObject): boolean {
  const [key = "", ...others] = Object.keys(body);
  return others.length === 0 && (key.includes(".") || plainKinds.some((kind) => kind === key));
}
