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
import { type EventOf, eventsOf } from "../../model/event.ts";
import { finalMessage, type Trajectory } from "../../trace/trajectory.ts";
import { qualified } from "../grader.ts";
import { isOfServer, toolsForAgent, wasCutOff } from "../../trace/agent-acts.ts";
import { shortened } from "../../base/visible-text.ts";
import { namesOf, repeatsOf, seqsOf, type ToolUse, toolUses } from "../tool-uses.ts";

/** The measurements of a trial. */
export interface Measured {
  readonly row: TrialMeasurements;
  /** Numbers of the events that show what was counted. */
  readonly evidence: Readonly<Partial<Record<keyof TrialMeasurements, readonly number[]>>>;
  readonly definitions: readonly OfferedDefinition[];
}

/** A tool that an agent was offered, with the size of its definition. */
export interface OfferedDefinition {
  readonly server: string;
  readonly tool: string;
  /** Estimate. */
  readonly tokens: number;
  readonly isCalled: boolean;
}

/** Maximum number of claims, and of tools with ignored errors, in the row of a trial. */
const maxNamed = 5;

const measured = new WeakMap<Trajectory, Measured | undefined>();

/** Measures how an agent used tools. Undefined if it had no tool of a server and called none. */
export function measure(trajectory: Trajectory): Measured | undefined {
  const { agentStarted, task, tools, calls, transcript } = trajectory;
  if (agentStarted === undefined || task.form === "check") return undefined;
  if (tools.length === 0 && calls.length === 0 && transcript === undefined) return undefined;
  // Most of it is about calls that failed.
  if (transcript?.failuresUnknown === true) return undefined;
  if (!measured.has(trajectory)) measured.set(trajectory, measureNow(trajectory));
  return measured.get(trajectory);
}

function measureNow(trajectory: Trajectory): Measured | undefined {
  const offered = toolsForAgent(trajectory);
  const uses = toolUses(trajectory);
  const calls = uses.filter((use) => isOfServer(use) || use.isUnknown);
  if (offered.length === 0 && calls.length === 0) return undefined;
  const unknown = calls.filter(({ isUnknown }) => isUnknown);
  const cutOff = new Set(
    trajectory.calls.filter((call) => wasCutOff(call, trajectory)).map(({ seq }) => seq),
  );
  const { errors, recovered, retries, open } = followErrors(
    calls.filter(({ isUnknown, seq }) => !isUnknown && !cutOff.has(seq)),
  );
  const redundant = redundantUses(uses);
  const called = new Set(namesOf(calls));
  const definitions = offered.map((tool) => ({
    server: tool.server,
    tool: tool.name,
    tokens: estimateTokens(tool.definition),
    isCalled: called.has(qualified(tool)),
  }));
  const answer = finalMessage(trajectory);
  const claims = unsupportedClaims(
    answer?.text ?? "",
    offered.map((tool) => ({ name: qualified(tool), tool: tool.name })),
    uses
      .filter(succeeded)
      .map((use) => ({ tool: use.tool, reads: readsOnly(use), foreign: !isOfServer(use) })),
  );
  const invalid = eventsOf(trajectory.events, "calls.invalid").at(-1)?.calls ?? [];
  const ignored = ignoredErrors(open, trajectory);
  const shown = {
    calls: calls.length,
    redundantCalls: redundant.length,
    errors: errors.length,
    recoveredErrors: recovered.length,
    identicalRetries: retries.length,
    ignoredErrors: namesOf(ignored).slice(0, maxNamed),
  };
  // A transcript does not say which tools there were.
  const ofDefinitions = trajectory.transcript === undefined && {
    unknownTools: unknown.length,
    invalidCalls: invalid.length,
    invalidCauses: countCauses(invalid.flatMap(({ causes }) => causes)),
    definitionTokens: sumOf(definitions),
    unusedDefinitionTokens: sumOf(definitions.filter(({ isCalled }) => !isCalled)),
    unsupportedClaims: claims.slice(0, maxNamed),
  };
  return {
    row: { ...shown, ...ofDefinitions },
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
 * The calls of the agent whose arguments violate the `inputSchema` of their tools, without calls of unknown tools. They are recorded,
 * since `measure` has no validator.
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

function succeeded({ failure, faulted }: ToolUse): boolean {
  return failure === undefined && faulted === undefined;
}

/** Whether the server declares that the tool only reads. */
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

/** The calls that failed, with those that came after them. */
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
 * Successful calls of servers' tools that repeat one with equal arguments and an equal result, without a use between them of a tool that
 * may have changed something: any tool that its server does not declare as read-only, such as one of the agent's own.
 */
function redundantUses(uses: readonly ToolUse[]): readonly ToolUse[] {
  const repeats = repeatsOf(uses);
  const results = new Map<ToolUse, Json>();
  return uses.filter((use) => {
    const { result } = use;
    const first = repeats.get(use) ?? use;
    const before = results.get(first);
    if (!readsOnly(use)) results.clear();
    if (result === undefined || !isOfServer(use) || !succeeded(use)) return false;
    results.set(first, result);
    return before !== undefined && equalJson(before, result);
  });
}

/** The failed calls after which the agent said something, but mentioned no failure. */
function ignoredErrors(failed: readonly ToolUse[], { messages }: Trajectory): readonly ToolUse[] {
  if (failed.length === 0) return [];
  const said = messages.filter(({ text }) => text.trim() !== "");
  const lastSaid = said.at(-1)?.seq ?? 0;
  const lastMention = said.findLast(({ text }) => mentionsFailure(text))?.seq ?? 0;
  return failed.filter(({ seq }) => seq < lastSaid && seq > lastMention);
}

// Claims in an agent's last message, by its words alone. It is assumed to be English.

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

/** Words of sentences about something that did not happen, or not yet. */
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

/** Whether a text may mention a failure: it has a negation, or a word for failures. */
function mentionsFailure(text: string): boolean {
  const words = wordsOf(text.slice(0, maxAnswerLength));
  return isDoubtful(words) || words.some((word) => failureWords.has(word));
}

/** Verbs of actions with an irregular past tense; that of `regular` ones is derived. */
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

/** Verbs of tools that can do anything, so that a successful call of one may justify any claim. */
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
interface ClaimedTool {
  /** With the name of its server. */
  readonly name: string;
  readonly tool: string;
}

/** A tool that was used with success. */
interface UsedTool {
  readonly tool: string;
  /** Its definition says that it only reads. */
  readonly reads: boolean;
  /** It is not a server's tool, so that it may be able to do anything. */
  readonly foreign: boolean;
}

/** A sentence that claims an action that is not on record. */
interface Claim {
  /** The tool, with its server, that does the claimed action. */
  readonly tool: string;
  readonly text: string;
}

/**
 * The claims of an answer about actions of tools that were not called with success. A sentence counts if its subject is "I" or "we", it
 * begins with the verb, or it reports that something was "successfully" or "now" done; and if it has the tool's name after "called",
 * "used" or "ran", or the past tense of its verb with all other words of its name. Sentences with a negation or a condition, and
 * questions, do not count; nor do actions that another successful call may have done.
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

/** Whether a sentence reports a call of a tool by its name. After a name that may be an ordinary word, "tool" must follow: "called the add tool". */
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

/** Whether the verb at a position reports an act of the speaker, not a state. */
function isActed(words: readonly string[], at: number): boolean {
  const before = words.slice(Math.max(0, at - 4), at);
  if (before.every((word) => leading.has(word)) && before.length === at) return true;
  if (before.some((word) => subjects.has(word) && word !== "have")) return true;
  const isPassive = before.some((word) => ["been", "was", "were"].includes(word));
  return isPassive && before.some((word) => word === "successfully" || word === "now");
}

/** Words that may stand before a verb at the start of a sentence. */
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

/** Whether a successful use may have done the action: of a tool that can do anything, or of one that shares a word and does not only read. */
function canBe(words: readonly string[], used: readonly UsedTool[]): boolean {
  return used.some(({ tool, reads, foreign }) => {
    if (foreign) return true;
    const own = nameWords(tool);
    if (own.some((word) => anything.has(word))) return true;
    if (reads || reading.has(own[0] ?? "")) return false;
    return own.some((word) => words.some((each) => isSameNoun(word, each)));
  });
}

/** How the arguments of a call violate the schema of the tool. */
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
  /** JSON Pointer to the wrong part of the arguments; empty: all of them. */
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

/** A call with its faults. */
export interface CheckedCall<T extends Arguments> {
  readonly use: T;
  /** Undefined if they are not known: the tool was not declared, or its schema cannot be used. */
  readonly faults: readonly CallFault[] | undefined;
}

/**
 * The faults of calls, by the `inputSchema` of their tools. A key that the schema does not name is unknown even if the schema allows any
 * key, since the server cannot know what it means.
 */
export async function callFaults<T extends Arguments>(
  calls: readonly T[],
  validateSchema: ValidateSchema,
): Promise<readonly CheckedCall<T>[]> {
  // Most calls fit a plain schema, and a promise for each would take longer than this test.
  const unclear = calls.filter((use) => !fitsPlainly(schemaOf(use) ?? true, use.args));
  const checks = await Promise.all(
    unclear.map(async (use) => [use, await validateSchema(schemaOf(use) ?? true, use.args)] as const),
  );
  const byUse = new Map(checks);
  return calls.map((use) => ({ use, faults: faultsOf(use, byUse.get(use)) }));
}

function schemaOf({ declared }: Arguments): Json | undefined {
  return declared?.definition["inputSchema"];
}

/** `check` is absent for arguments that fit a plain schema. */
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

/** Keywords by which a schema may allow keys besides those of `properties`. */
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

/** Keys of arguments that a schema does not mention. */
function unnamedKeys(schema: Json, args: Json): readonly string[] {
  if (!isJsonObject(schema) || !isJsonObject(schema["properties"])) return [];
  const { properties } = schema;
  const unnamed = Object.keys(asObject(args)).filter((key) => !Object.hasOwn(properties, key));
  const allowsOthers = unnamed.length > 0 && otherKeywords.some((keyword) => Object.hasOwn(schema, keyword));
  return allowsOthers ? [] : unnamed;
}
