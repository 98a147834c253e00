import { parseDuration, parseGoDuration } from "../../core/formats/duration.ts";
import { asObject, formatKeyPath, memberOf, withoutUndefined } from "../../core/formats/json.ts";
import type { RawStep } from "../../core/formats/legacy-task/legacy-form.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import type {
  HttpStep,
  JsonExpectation,
  McpStep,
  ScriptStep,
  Step,
  TextExpectation,
} from "../../core/formats/step.ts";

/** A step as the new form has it. Its texts are templates, still with every brace escaped that may be. */
export interface WrittenStep {
  /** The key of the step, which says its type. */
  readonly key: string;
  readonly body: JsonObject;
  /** What of it means something else now. */
  readonly losses: readonly string[];
}

type Body = Omit<WrittenStep, "key">;

/** The limit that steps without one have in the older forms; it is written out where the new form has another one. */
const usualTimeout = "5m";

/** Writes a step that was read from an older form; `alias` is the name that its task has for the extension. */
export function writeStep(raw: RawStep, step: Step): WrittenStep {
  const isSetup = raw.phase === "setup";
  switch (step.type) {
    case "script":
      return { key: "script", ...script(raw, step) };
    case "http":
      return { key: "http", ...http(raw, step) };
    case "mcp":
      return tolerant(isSetup, toolCall(raw, step));
    case "extension":
      return tolerant(isSetup, operation(raw, step.args));
    case "llm": {
      const { contains, exact } = step;
      return {
        key: "llm",
        body: withoutUndefined({ contains, exact, timeout: usualTimeout }),
        losses: [],
      };
    }
    default:
      throw new Error(`no older form has a step of type ${step.type}`);
  }
}

function script(raw: RawStep, { source, env }: ScriptStep): Body {
  const isTolerated = memberOf(raw.body, "continueOnError")[1] === true;
  const file = "file" in source ? source.file.replace(/^\.\//, "") : "";
  const body = {
    ...source,
    env: nonEmpty(env),
    timeout: durationOf(raw),
    continueOnError: isTolerated && raw.phase === "setup" ? true : undefined,
  };
  return {
    body: withoutUndefined(body),
    losses: [
      ...(body.continueOnError === true ? [tolerated] : []),
      // In cleanup a failure never counts.
      ...(isTolerated && raw.phase === "verify"
        ? [
            "continueOnError: true is left out: a failure counted all the same, only the steps after it still ran, as they always do now",
          ]
        : []),
      ...(file.includes("/")
        ? ["the script runs in the task's folder, no longer in its own: check the relative paths in it"]
        : []),
    ],
  };
}

/** Every status: the older form takes any where none is asked for. */
const anyStatus = ["1xx", "2xx", "3xx", "4xx", "5xx"];

function http(raw: RawStep, { url, method, headers, body, expect }: HttpStep): Body {
  const written = asObject(memberOf(raw.body, "expect")[1]);
  // A request in setup that could not be sent was an error, which continueOnError would hide too.
  const isDropped = raw.phase === "setup" && Object.keys(written).length > 0;
  const [status = anyStatus] = raw.phase === "setup" ? [] : expect.status;
  const content = raw.phase === "setup" ? undefined : expect.body;
  const expected = withoutUndefined({
    status,
    body: content === undefined ? undefined : textExpectation(content),
  });
  const all = {
    url,
    method: memberOf(raw.body, "method")[1] === undefined ? undefined : method,
    headers: nonEmpty(headers),
    body: body === undefined || "json" in body ? body : body.text,
    expect: expected,
    timeout: durationOf(raw) ?? usualTimeout,
  };
  const isLoose =
    content?.json?.some(({ equals }) => equals !== undefined && typeof equals !== "object") === true;
  return {
    body: withoutUndefined(all),
    losses: [
      ...(isDropped
        ? [`in setup nothing depended on what was expected, so it is left out: ${JSON.stringify(written)}`]
        : []),
      ...(isLoose
        ? ['equals compares JSON values, so that 5 and "5" differ; the older form took them as equal']
        : []),
    ],
  };
}

function textExpectation({ matches, json }: TextExpectation): JsonObject {
  return withoutUndefined({ matches: oneOrMany(matches), json: json?.map(fieldExpectation) });
}

function fieldExpectation({ path, exists, type, matches, equals }: JsonExpectation): JsonObject {
  const plain = path.replace(/^\$\./, "");
  // Nothing else can be asked of a place that must not be.
  if (exists === false) return { path: plain, exists };
  return withoutUndefined({ path: plain, equals, type, matches, exists });
}

function oneOrMany<T>(values: readonly T[] | undefined): T | readonly T[] | undefined {
  return values?.length === 1 ? values[0] : values;
}

/** The path of the text of the first part, which is nearly always the only one. */
const firstText = "$[0].text";

/** What was asked of the list of content becomes what is asked of its text, as far as that is the same. */
function toolCall(raw: RawStep, { server = "", request, expect }: McpStep): WrittenStep {
  if (request.kind !== "tool") throw new Error("older forms only call tools");
  const { matches: whole = [], json = [] } = expect.content ?? {};
  const ofText = json.filter(({ path }) => path === firstText);
  const lost = json.filter(({ path }) => path !== firstText).map(({ path }) => path);
  const patterns = [...whole, ...ofText.flatMap(({ matches }) => matches ?? [])];
  const equals = ofText.find((each) => typeof each.equals === "string")?.equals;
  const text = nonEmpty(
    withoutUndefined({ equals, matches: patterns.length === 0 ? undefined : oneOrMany(patterns) }),
  );
  const body = {
    args: memberOf(raw.body, "args")[1] === undefined ? undefined : request.args,
    expect: nonEmpty(withoutUndefined({ isError: expect.isError, text })),
    timeout: usualTimeout,
  };
  return {
    key: `${server}.${request.tool}`,
    body: withoutUndefined(body),
    losses: [
      ...(whole.length > 0
        ? ["the pattern is looked for in the text, no longer in the JSON of the list of content"]
        : []),
      ...(lost.length > 0
        ? [`what was expected of ${lost.join(", ")} in the list of content is left out`]
        : []),
    ],
  };
}

/** Keys that an operation's short form has itself, so that no argument can go by them. */
const ownKeys = ["id", "timeout", "if", "continueOnError", "outputs", "retry", "stableFor"];

/** An operation whose arguments leave room for its short form keeps it. */
function operation({ type }: RawStep, args: JsonObject): WrittenStep {
  if (!ownKeys.some((key) => Object.hasOwn(args, key))) return { key: type, body: args, losses: [] };
  const dot = type.indexOf(".");
  const body = { package: type.slice(0, dot), action: type.slice(dot + 1), args };
  return { key: "extension", body, losses: [] };
}

const tolerated =
  "continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run";

/** In setup of the older form a failure of a step that is no script changed nothing. */
function tolerant(isSetup: boolean, { key, body, losses }: WrittenStep): WrittenStep {
  if (!isSetup) return { key, body, losses };
  return { key, body: { ...body, continueOnError: true }, losses: [...losses, tolerated] };
}

function nonEmpty<T extends object>(value: T): T | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}

function durationOf({ body }: RawStep): string | undefined {
  const text = memberOf(body, "timeout")[1];
  return typeof text === "string" ? writtenDuration(text) : undefined;
}

const units = [
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

/** A duration as Go writes it, in another writing where only Go would read it. */
export function writtenDuration(text: string): string {
  const ms = parseGoDuration(text);
  if (ms === undefined || parseDuration(text) === ms) return text;
  const [unit, size] = units.find(([, each]) => ms % each === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

/** The place of a step in messages. */
export function placeOfStep({ path }: RawStep): string {
  return formatKeyPath(path);
}
