import { shortened } from "../../base/visible-text.ts";

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
export function mentionsFailure(text: string): boolean {
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
export function unsupportedClaims(
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
