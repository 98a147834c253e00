import { equalJson } from "../../expect/json-difference.ts";
import { fitsPlainly } from "../../expect/plain-schema.ts";
import {
  formatSchemaError,
  type SchemaCheck,
  type SchemaError,
  type ValidateSchema,
} from "../../expect/tool-result.ts";
import { asObject, estimateTokens, isJsonObject, type Json } from "../../base/json.ts";
import type { TrialMeasurements } from "../../model/result.ts";
import { shortened } from "../../base/visible-text.ts";
import { type EventOf, eventsOf } from "../../model/event.ts";
import type { Trajectory } from "../../trace/trajectory.ts";
import { qualified } from "../grader.ts";
import { isOfServer } from "../../trace/agent-acts.ts";
import { namesOf, repeatsOf, toolsForAgent, type ToolUse, toolUses } from "../tool-uses.ts";

/** The measurements of a trial. */
export interface Measured {
  readonly row: TrialMeasurements;
  /** Numbers of the events that show what was counted. */
  readonly evidence: Readonly<Partial<Record<keyof TrialMeasurements, readonly number[]>>>;
  readonly definitions: readonly OfferedDefinition[];
}

/** What the definition of a tool costs that an agent was offered. */
export interface OfferedDefinition {
  readonly server: string;
  readonly tool: string;
  /** Estimate. */
  readonly tokens: number;
  readonly isCalled: boolean;
}

/** Claims, and tools with ignored errors, that a trial's row names. */
const maxNamed = 5;

const measured = new WeakMap<Trajectory, Measured | undefined>();

/** Measures how an agent used tools. Undefined where it had no tool of a server and called none. */
export function measure(trajectory: Trajectory): Measured | undefined {
  if (trajectory.agentStarted === undefined || trajectory.task.form === "check") return undefined;
  if (trajectory.tools.length === 0 && trajectory.calls.length === 0) return undefined;
  if (!measured.has(trajectory)) measured.set(trajectory, measureNow(trajectory));
  return measured.get(trajectory);
}

function measureNow(trajectory: Trajectory): Measured | undefined {
  const offered = toolsForAgent(trajectory);
  const uses = toolUses(trajectory);
  const calls = uses.filter((use) => isOfServer(use) || use.isUnknown);
  if (offered.length === 0 && calls.length === 0) return undefined;
  const unknown = calls.filter(({ isUnknown }) => isUnknown);
  const { errors, recovered, retries, open } = followErrors(calls.filter(({ isUnknown }) => !isUnknown));
  const redundant = redundantUses(uses);
  const called = new Set(namesOf(calls));
  const definitions = offered.map((tool) => ({
    server: tool.server,
    tool: tool.name,
    tokens: estimateTokens(tool.definition),
    isCalled: called.has(qualified(tool)),
  }));
  const answer = trajectory.messages.at(-1);
  const claims = unsupportedClaims(
    answer?.text ?? "",
    offered.map((tool) => ({ name: qualified(tool), tool: tool.name })),
    uses
      .filter(succeeded)
      .map((use) => ({ tool: use.tool, reads: readsOnly(use), foreign: !isOfServer(use) })),
  );
  const invalid = eventsOf(trajectory.events, "calls.invalid").at(-1)?.calls ?? [];
  const ignored = ignoredErrors(open, trajectory);
  return {
    row: {
      calls: calls.length,
      unknownTools: unknown.length,
      invalidCalls: invalid.length,
      invalidCauses: countCauses(invalid.flatMap(({ causes }) => causes)),
      redundantCalls: redundant.length,
      errors: errors.length,
      recoveredErrors: recovered.length,
      identicalRetries: retries.length,
      definitionTokens: sumOf(definitions),
      unusedDefinitionTokens: sumOf(definitions.filter(({ isCalled }) => !isCalled)),
      unsupportedClaims: claims.slice(0, maxNamed),
      ignoredErrors: namesOf(ignored).slice(0, maxNamed),
    },
    evidence: {
      calls: seqsOf(calls),
      unknownTools: seqsOf(unknown),
      invalidCalls: invalid.map(({ seq }) => seq),
      redundantCalls: seqsOf(redundant),
      errors: seqsOf(errors),
      recoveredErrors: seqsOf(errors),
      identicalRetries: seqsOf(retries),
      unsupportedClaims: answer === undefined ? [] : [answer.seq],
      ignoredErrors: seqsOf(ignored),
    },
    definitions,
  };
}

/**
 * The calls of the agent whose arguments do not fit what their servers declare. They are recorded, since `measure` has no
 * validator. Calls of tools that do not exist are not among them.
 */
export async function invalidCalls(
  trajectory: Trajectory,
  validateSchema: ValidateSchema,
): Promise<EventOf<"calls.invalid">["calls"]> {
  const calls = toolUses(trajectory).filter((use) => isOfServer(use) && !use.isUnknown);
  return (await callFaults(calls, validateSchema)).flatMap(({ use: { seq }, faults = [] }) =>
    faults.length === 0 ? [] : { seq, causes: [...new Set(faults.map(({ cause }) => cause))] },
  );
}

/** How often each cause occurs. */
function countCauses(causes: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...Map.groupBy(causes, (cause) => cause)].map(([cause, all]) => [cause, all.length]),
  );
}

function seqsOf(uses: readonly ToolUse[]): readonly number[] {
  return uses.map(({ seq }) => seq);
}

function succeeded({ failure, faulted }: ToolUse): boolean {
  return failure === undefined && faulted === undefined;
}

/** Whether the server says that the tool does not change anything. */
function readsOnly({ declared }: ToolUse): boolean {
  return asObject(declared?.definition["annotations"])["readOnlyHint"] === true;
}

function sumOf(definitions: readonly OfferedDefinition[]): number {
  return definitions.reduce((sum, { tokens }) => sum + tokens, 0);
}

interface FollowedErrors {
  readonly errors: readonly ToolUse[];
  /** Those after which a call of the same tool succeeded. */
  readonly recovered: readonly ToolUse[];
  /** The others. */
  readonly open: readonly ToolUse[];
  /** Calls with the same arguments as the call of that tool before, which had failed. */
  readonly retries: readonly ToolUse[];
}

/** Which calls failed, and what came of it. */
export function followErrors(calls: readonly ToolUse[]): FollowedErrors {
  const [errors, recovered, retries]: [ToolUse[], ToolUse[], ToolUse[]] = [[], [], []];
  const open = new Map<string, ToolUse[]>();
  for (const call of calls) {
    const failed = open.get(call.name) ?? [];
    const before = failed.at(-1);
    if (before !== undefined && equalJson(before.args, call.args)) retries.push(call);
    if (!succeeded(call)) {
      errors.push(call);
      failed.push(call);
      open.set(call.name, failed);
    } else {
      for (const each of failed) recovered.push(each);
      open.delete(call.name);
    }
  }
  return { errors, recovered, retries, open: [...open.values()].flat() };
}

/**
 * Successful calls that repeat one with equal arguments and get an equal result, with nothing between the two that may have
 * changed something: every use of a tool that its server does not declare to only read may have.
 */
function redundantUses(uses: readonly ToolUse[]): readonly ToolUse[] {
  const repeats = repeatsOf(uses);
  const results = new Map<ToolUse, Json>();
  return uses.filter((use) => {
    const { result } = use;
    const first = repeats.get(use) ?? use;
    const before = results.get(first);
    if (!readsOnly(use)) results.clear();
    if (result === undefined || !succeeded(use)) return false;
    results.set(first, result);
    return before !== undefined && equalJson(before, result);
  });
}

/** The failed calls after which the agent says something, and nothing of a failure. */
function ignoredErrors(failed: readonly ToolUse[], { messages }: Trajectory): readonly ToolUse[] {
  if (failed.length === 0) return [];
  const said = messages.filter(({ text }) => text.trim() !== "");
  const lastSaid = said.at(-1)?.seq ?? 0;
  const lastTold = said.findLast(({ text }) => mentionsFailure(text))?.seq ?? 0;
  return failed.filter(({ seq }) => seq < lastSaid && seq > lastTold);
}

/** What an agent's last message says, as far as words alone tell; it is taken to be English. */

const maxAnswerLength = 20_000;
const maxSentenceLength = 200;

/** Words of a sentence in lower case; a name such as `create_issue` or `list-all` is one. */
function wordsOf(text: string): readonly string[] {
  return (
    text
      .toLowerCase()
      .replaceAll("’", "'")
      .match(/[\p{L}\p{N}_'-]+/gu) ?? []
  );
}

/** Sentences and lines, without blocks of code and quoted lines. */
function sentencesOf(answer: string): readonly string[] {
  const prose = answer
    .slice(0, maxAnswerLength)
    .split("```")
    .filter((_, index) => index % 2 === 0)
    .join("\n");
  return prose
    .split(/\n|(?<=[.!?])\s/)
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence !== "" && !sentence.startsWith(">"));
}

/** Words that a sentence has that reports something that did not happen, or did not yet. */
const doubts: ReadonlySet<string> = new Set(
  "not no never cannot none nothing without unable fail failed fails failing failure error errors would should could can may might will if unless already before previously nor neither instead".split(
    " ",
  ),
);

function isDoubtful(words: readonly string[]): boolean {
  return words.some((word) => doubts.has(word) || word.endsWith("n't") || word.endsWith("'ll"));
}

const failureWords: ReadonlySet<string> = new Set(
  "unfortunately sorry problem problems issue issues denied invalid refused rejected unavailable missing unsuccessful unsuccessfully timeout crash crashed broken wrong however although but despite time timed".split(
    " ",
  ),
);

/** Whether a text may speak of a failure: it has a word that negates, or one for failures. */
function mentionsFailure(text: string): boolean {
  const words = wordsOf(text.slice(0, maxAnswerLength));
  return isDoubtful(words) || words.some((word) => failureWords.has(word));
}

/** Verbs of actions whose past tense is another word than the verb; regular ones are formed from `regular`. */
const irregular: Readonly<Record<string, readonly string[]>> = {
  send: ["sent"],
  write: ["wrote", "written"],
};
const regular =
  "add approve archive assign book cancel close copy create delete deploy disable edit email enable insert install invite merge modify move order pay post publish register reject remove rename replace reply restart save schedule store submit transfer update upload".split(
    " ",
  );

function pastOf(verb: string): string {
  if (verb.endsWith("e")) return `${verb}d`;
  if (/[^aeiou]y$/.test(verb)) return `${verb.slice(0, -1)}ied`;
  if (verb === "submit" || verb === "cancel" || verb === "transfer") return `${verb}${verb.at(-1) ?? ""}ed`;
  return `${verb}ed`;
}

const pasts: ReadonlyMap<string, readonly string[]> = new Map([
  ...Object.entries(irregular),
  ...regular.map((verb) => [verb, verb === "cancel" ? ["cancelled", "canceled"] : [pastOf(verb)]] as const),
]);

/** Verbs of tools that can do anything: a successful call of one may be what a claim is about. */
const anything: ReadonlySet<string> = new Set(
  "apply batch call eval evaluate exec execute invoke perform process query run shell bash sql task".split(
    " ",
  ),
);
const reading: ReadonlySet<string> = new Set(
  "check count describe fetch find get inspect list lookup query read search show view".split(" "),
);

/** The words of a tool's name: `createIssue`, `create-issue` and `create_issue` have two. */
function nameWords(tool: string): readonly string[] {
  return tool
    .slice(0, 200)
    .replaceAll(/(?<=[a-z\d])(?=[A-Z])/g, " ")
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .filter((word) => word !== "");
}

/** A tool whose use an answer may claim. */
export interface ClaimedTool {
  /** With its server's. */
  readonly name: string;
  readonly tool: string;
}

/** A tool that was used with success. */
export interface UsedTool {
  readonly tool: string;
  /** It says of itself that it only reads. */
  readonly reads: boolean;
  /** It is not of a server: nothing is known of what it can do. */
  readonly foreign: boolean;
}

/** A sentence that claims what the record does not show. */
export interface Claim {
  /** The tool, with its server, that does what the sentence says. */
  readonly tool: string;
  readonly text: string;
}

/**
 * The claims of an answer to have done what only a tool does of which no call succeeded. A sentence counts when its subject is
 * "I" or "we", it begins with the verb, or it says that something was "successfully" or "now" done; and when it has
 * the tool's name after "called", "used" or "ran", or the past tense of its verb with all other words of its name. Sentences
 * with a negation or a condition, and questions, do not count; nor do verbs where another successful call could have done it.
 */
function unsupportedClaims(
  answer: string,
  tools: readonly ClaimedTool[],
  used: readonly UsedTool[],
): readonly Claim[] {
  // An agent's own tool may have the same name with a capital.
  const succeeded = new Set(used.map(({ tool }) => tool.toLowerCase()));
  const candidates = tools.filter(({ tool }) => !succeeded.has(tool.toLowerCase()));
  if (candidates.length === 0) return [];
  const named = candidates.map((each) => ({
    ...each,
    words: nameWords(each.tool),
  }));
  // Most answers claim nothing.
  const verbs = [...callVerbs, ...named.flatMap(({ words: [verb = ""] }) => pasts.get(verb) ?? [])];
  const said = answer.toLowerCase();
  if (!verbs.some((verb) => said.includes(verb))) return [];
  return sentencesOf(answer).flatMap((sentence): Claim[] => {
    const words = wordsOf(sentence);
    if (sentence.endsWith("?") || isDoubtful(words)) return [];
    const claimed = named.find(
      (tool) => claimsCall(words, tool.tool) || (claimsAction(words, tool.words) && !canBe(tool.words, used)),
    );
    return claimed === undefined
      ? []
      : [{ tool: claimed.name, text: shortened(sentence, maxSentenceLength) }];
  });
}

const callVerbs: ReadonlySet<string> = new Set(["called", "used", "ran", "invoked", "executed"]);

/** Whether words say that a tool was called by its name. One that may be an ordinary word has to be called a tool: "called the add tool". */
function claimsCall(words: readonly string[], tool: string): boolean {
  const name = tool.toLowerCase();
  const isCall = (at: number): boolean => callVerbs.has(words[at] ?? "") && isActed(words, at);
  if (/[_-]|[a-z\d][A-Z]/.test(tool)) {
    const at = words.indexOf(name);
    return at > 0 && words.some((_, index) => index < at && isCall(index));
  }
  return words.some((word, index) => {
    if (word !== name || words[index + 1] !== "tool") return false;
    return isCall(words[index - 1] === "the" ? index - 2 : index - 1);
  });
}

function claimsAction(words: readonly string[], [verb = "", ...objects]: readonly string[]): boolean {
  const forms = pasts.get(verb);
  if (forms === undefined || objects.length === 0) return false;
  const at = words.findIndex((word, index) => forms.includes(word) && isActed(words, index));
  return at !== -1 && objects.every((object) => words.some((word) => isSameNoun(word, object)));
}

const subjects: ReadonlySet<string> = new Set(["i", "we", "i've", "we've", "have"]);

/** Whether the verb at this place is about what the speaker did, not what is so. */
function isActed(words: readonly string[], at: number): boolean {
  const before = words.slice(Math.max(0, at - 4), at);
  if (before.every((word) => leading.has(word)) && before.length === at) return true;
  if (before.some((word) => subjects.has(word) && word !== "have")) return true;
  const isPassive = before.some((word) => ["been", "was", "were"].includes(word));
  return isPassive && before.some((word) => word === "successfully" || word === "now");
}

/** What may come before a verb that begins a sentence. */
const leading: ReadonlySet<string> = new Set([
  "done",
  "ok",
  "okay",
  "successfully",
  "also",
  "then",
  "and",
  "-",
]);

function isSameNoun(word: string, object: string): boolean {
  return singular(word) === singular(object);
}

function singular(noun: string): string {
  if (noun.endsWith("ies")) return `${noun.slice(0, -3)}y`;
  return noun.length > 3 && noun.endsWith("s") ? noun.slice(0, -1) : noun;
}

/** Whether a successful use may be what did it: of a tool that can do anything, or of one that shares a word and does not only read. */
function canBe(words: readonly string[], used: readonly UsedTool[]): boolean {
  return used.some(({ tool, reads, foreign }) => {
    if (foreign) return true;
    const own = nameWords(tool);
    if (own.some((word) => anything.has(word))) return true;
    if (reads || reading.has(own[0] ?? "")) return false;
    return own.some((word) => words.some((each) => isSameNoun(word, each)));
  });
}

/** Why a call does not fit what its server declared. */
export type CallFaultCause =
  | "unknown tool"
  | "unknown key"
  | "missing key"
  | "wrong type"
  | "unknown value"
  | "invalid value";

export interface CallFault {
  readonly cause: CallFaultCause;
  /** What is wrong, as a sentence. */
  readonly message: string;
  /** JSON Pointer to what is wrong in the arguments; empty: all of them. */
  readonly pointer: string;
}

const causes: Readonly<Record<string, CallFaultCause>> = {
  additionalProperties: "unknown key",
  unevaluatedProperties: "unknown key",
  required: "missing key",
  dependentRequired: "missing key",
  type: "wrong type",
  enum: "unknown value",
  const: "unknown value",
};

type Arguments = Pick<ToolUse, "args" | "declared">;

/** A call with what is wrong with it. */
export interface CheckedCall<T extends Arguments> {
  readonly use: T;
  /** Empty: nothing. Undefined where it is not known: the tool was not declared, or its schema cannot be used. */
  readonly faults: readonly CallFault[] | undefined;
}

/**
 * What is wrong with the arguments of calls, by the `inputSchema` of their tools. A key that the schema does not name counts as
 * unknown where the schema lets any be, since the server cannot know what it means.
 */
export async function callFaults<T extends Arguments>(
  calls: readonly T[],
  validateSchema: ValidateSchema,
): Promise<readonly CheckedCall<T>[]> {
  // A promise for each call that certainly fits would take longer than to see that it does.
  const doubtful = calls.filter((use) => !fitsPlainly(schemaOf(use) ?? true, use.args));
  const checks = await Promise.all(
    doubtful.map(async (use) => [use, await validateSchema(schemaOf(use) ?? true, use.args)] as const),
  );
  const byUse = new Map(checks);
  return calls.map((use) => ({ use, faults: faultsOf(use, byUse.get(use)) }));
}

function schemaOf({ declared }: Arguments): Json | undefined {
  return declared?.definition["inputSchema"];
}

/** `check` is absent where the arguments certainly fit. */
function faultsOf(use: Arguments, check: SchemaCheck | undefined): readonly CallFault[] | undefined {
  const schema = schemaOf(use);
  if (schema === undefined || check?.status === "unusable") return undefined;
  if (check?.status === "invalid") return check.errors.map(faultOf);
  return unnamedKeys(schema, use.args).map((key) => {
    return {
      cause: "unknown key",
      message: `${JSON.stringify(key.slice(0, 80))} is not an argument of the tool`,
      pointer: `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`,
    };
  });
}

function faultOf(error: SchemaError): CallFault {
  return {
    cause: causes[error.keyword] ?? "invalid value",
    message: formatSchemaError(error, "the arguments"),
    pointer: error.instancePath,
  };
}

/** Keywords by which a schema may name keys elsewhere than in its `properties`. */
const otherKeywords = [
  "$ref",
  "$dynamicRef",
  "allOf",
  "anyOf",
  "oneOf",
  "if",
  "additionalProperties",
  "patternProperties",
  "propertyNames",
  "dependentSchemas",
  "unevaluatedProperties",
];

/** Keys of arguments that a schema neither names nor speaks of. */
function unnamedKeys(schema: Json, args: Json): readonly string[] {
  if (!isJsonObject(schema) || !isJsonObject(schema["properties"])) return [];
  const { properties } = schema;
  const unnamed = Object.keys(asObject(args)).filter((key) => !Object.hasOwn(properties, key));
  const speaksOfOthers =
    unnamed.length > 0 && otherKeywords.some((keyword) => Object.hasOwn(schema, keyword));
  return speaksOfOthers ? [] : unnamed;
}
