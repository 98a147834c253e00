import { maxRecordDepth } from "../base/limits.ts";
import { secretMark, unknownKey, withoutSecretMarks } from "../base/secret-marks.ts";
import { eventTypes } from "../model/event.ts";

/** Length of the pieces that are looked for; also the shortest part of a text that is found without the rest. */
const pieceLength = 8;
/** Characters that decide how far the search may jump. */
const blockLength = 3;

/** Where in a text one of the texts that are looked for stands. */
export interface SecretMatch {
  readonly start: number;
  readonly end: number;
  /** All of it, even if only a part was found. */
  readonly form: string;
  /** Not for a part that is cut off where the text begins or ends, a line does, or `…` stands. */
  readonly whole: boolean;
}

interface Piece {
  readonly text: string;
  readonly form: string;
  /** Where in the form it stands; undefined for what stands only in JSON. */
  readonly at?: number;
}

/**
 * Looks for many texts at once, in a time that hardly depends on how many they are (Wu and Manber, "A fast algorithm for
 * multi-pattern searching", 1994): it looks for pieces of them. No text may be shorter than four characters.
 */
class SecretFinder {
  readonly #length: number;
  readonly #jumps = new Uint8Array(0x1_0000);
  readonly #pieces = new Map<number, Piece[]>();

  constructor(forms: Iterable<string>) {
    const pieces = Array.from(forms, piecesOf).flat();
    this.#length = pieces.reduce((least, { text }) => Math.min(least, text.length), pieceLength);
    this.#jumps.fill(this.#length - blockLength + 1);
    for (const piece of pieces) this.#add(piece);
  }

  /** Whether a JSON text may hold one of the texts or a part of one; only a text that surely holds none gives false. */
  mayBeIn(json: string): boolean {
    let isIn = false;
    this.#search(json, () => {
      isIn = true;
      return json.length;
    });
    return isIn;
  }

  /** Everything that is found, in no order; findings can overlap. */
  findIn(text: string): SecretMatch[] {
    const findings: SecretMatch[] = [];
    this.#search(text, ({ text: piece, form, at }, start) => {
      const place = { start, end: start + piece.length };
      const finding = at === undefined ? undefined : findAround(text, form, place, start - at);
      if (finding === undefined) return 0;
      const last = findings.at(-1);
      if (last === undefined || finding.start < last.start || finding.end > last.end) findings.push(finding);
      // Whatever overlaps its end and goes beyond has a piece that begins no earlier.
      return finding.whole ? finding.end - pieceLength + 1 : 0;
    });
    return findings;
  }

  #add(piece: Piece): void {
    const { text } = piece;
    for (let end = blockLength; end <= this.#length; end += 1) {
      const block = blockBefore(text, end);
      this.#jumps[block] = Math.min(this.#jumps[block] ?? 0, this.#length - end);
    }
    const last = blockBefore(text, this.#length);
    const others = this.#pieces.get(last);
    if (others === undefined) this.#pieces.set(last, [piece]);
    else others.push(piece);
  }

  /** Hands over every piece with its place; `take` says from where on the search is worth it. */
  #search(text: string, take: (piece: Piece, start: number) => number): void {
    if (this.#pieces.size === 0) return;
    for (let end = this.#length; end <= text.length;) {
      const block = blockBefore(text, end);
      const jump = this.#jumps[block] ?? 0;
      if (jump > 0) {
        end += jump;
        continue;
      }
      const start = end - this.#length;
      let next = start + 1;
      for (const piece of this.#pieces.get(block) ?? [])
        if (text.startsWith(piece.text, start)) next = Math.max(next, take(piece, start));
      end = next + this.#length;
    }
  }
}

/** A number for the characters before a place. */
function blockBefore(text: string, end: number): number {
  const [a, b, c] = [text.charCodeAt(end - 3), text.charCodeAt(end - 2), text.charCodeAt(end - 1)];
  return (a * 961 + b * 31 + c) & 0xffff;
}

/** Pieces of which at least one stands wherever the form does, or enough of its beginning or its end. */
function piecesOf(form: string): Piece[] {
  const length = Math.min(pieceLength, form.length);
  const places = new Set([shortestBeginning(form) - length, form.length - length]);
  return Array.from(places).flatMap((at) => {
    const text = form.slice(at, at + length);
    const json = JSON.stringify(text).slice(1, -1).slice(0, pieceLength);
    return [{ text, form, at }, ...(json === text ? [] : [{ text: json, form }])];
  });
}

/** Scheme and host of an address are no secret, so that what is cut off soon after them is none either. */
function shortestBeginning(form: string): number {
  const origin = /^[a-z][\w+.-]*:\/\/[^/?#@]*\/?/i.exec(form)?.[0].length ?? 0;
  return Math.min(origin + pieceLength, form.length);
}

/** The form in a text, or what there is of it, given a piece of it there and the place where all of it would begin. */
function findAround(
  text: string,
  form: string,
  piece: { readonly start: number; readonly end: number },
  begin: number,
): SecretMatch | undefined {
  let { start, end } = piece;
  while (start > Math.max(begin, 0) && text[start - 1] === form[start - 1 - begin]) start -= 1;
  while (end < begin + form.length && end < text.length && text[end] === form[end - begin]) end += 1;
  const [beginsHere, endsHere] = [start === begin, end === begin + form.length];
  const isCut = (beginsHere || breaksAt(text, start - 1)) && (endsHere || breaksAt(text, end));
  return isCut ? { start, end, form, whole: beginsHere && endsHere } : undefined;
}

/** Whether a text ends at a character, a line does, or something was left out. */
function breaksAt(text: string, index: number): boolean {
  const character = text[index];
  return character === undefined || character === "\n" || character === "\r" || character === "…";
}

/** A value that must never be written, and the name to show in its place. */
export interface Secret {
  readonly name: string;
  readonly value: string;
}

/** Replaces secrets in any JSON-like value; gives the same value back when there is nothing to replace. */
export interface Redact {
  <T>(value: T): T;
  /**
   * The same for a value that was not redacted before: what looks like the mark of a secret in it is written with round
   * brackets, or a text with `[secret:NAME]` would be taken for one with the secret.
   */
  readonly fromOutside: <T>(value: T) => T;
  /** Whether a value with this JSON surely holds nothing to replace: one look at a text instead of a walk. */
  readonly isClean: (json: string) => boolean;
  /** Has one more secret removed from then on, such as a token that was got during the run. */
  readonly add: (secret: Secret) => void;
  /** What a mark of this name stands for; undefined: it is not known. */
  readonly valueOf: (name: string) => string | undefined;
}

/** Knows the secrets, too. */
export interface Redactor extends Redact {
  /** Name of a secret that a text has all of, and in which form; undefined: it has none. Well-known shapes do not count. */
  readonly nameIn: (text: string) => string | undefined;
}

/** Shorter numbers are ports, counts and ids more often than secrets. */
const secretNumber = /^[1-9]\d{7,}$/;

/**
 * Shapes of keys that are secrets whoever gave them: provider, forge and cloud keys, bearer tokens, private keys.
 * Servers choose the text, so none of them may look at a character more than a few times, and none may match without
 * bounds: a match of megabytes exhausts the stack.
 */
const knownShapes = [
  /\bsk-(?:ant-|proj-|svcacct-|or-)?[A-Za-z0-9_-]{20,400}/,
  /\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,400}/,
  /\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,400}/,
  /\bgithub_pat_[A-Za-z0-9_]{30,400}/,
  /\bglpat-[A-Za-z0-9_-]{20,400}/,
  /\bxox[abeoprs]-[A-Za-z0-9-]{10,400}/,
  /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/,
  /\bAIza[0-9A-Za-z_-]{30,400}/,
  /\bnpm_[A-Za-z0-9]{30,400}/,
  /\bhf_[A-Za-z0-9]{30,400}/,
  /(?<![\w-])eyJ[\w-]{8,8000}\.eyJ[\w-]{8,8000}\.[\w-]{1,8000}/,
  /(?<=\b[Bb]earer )(?=[\w.~+/-]{0,400}\d)[\w.~+/-]{16,8000}=*/,
  /(?<=\b[Bb]asic )(?=[A-Za-z0-9+/]{0,400}(?:[a-z][A-Z]|\d|=))[A-Za-z0-9+/]{8,8000}={0,2}/,
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----)[\s\S]){0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/,
] as const;

const knownShape = new RegExp(knownShapes.map(({ source }) => source).join("|"), "g");

/** What every known shape has in it, however JSON escapes what stands around it. */
const shapeHints =
  /sk-|[rs]k_(?:live|test)_|gh[pousr]_|github_pat_|glpat-|xox|AKIA|ASIA|AIza|npm_|hf_|eyJ|earer |asic [A-Za-z0-9+/]{8}|PRIVATE KEY/;

/**
 * Makes the one function that removes secrets from texts, keys of objects and whole numbers of eight or more digits:
 *
 * - the given values, and each line of those of several lines, also as JSON writes them (with or without escapes for
 *   other characters than ASCII and for `/`, also inside a text that is JSON) and as URLs do;
 * - what Base64, hexadecimals and other encodings make of them, with a mark of its own: it is not the value;
 * - parts of all these from eight characters on, where the text begins or ends, a line does or `…` stands, also with a mark
 *   of its own: a text may have been cut in two before it came here;
 * - everything that has the shape of a well-known key, unless it is harmless.
 *
 * Values under four characters are left alone, since replacing them would garble unrelated text, and so are the words that
 * traces are written in. Other than that the result is like the value: no member is lost, and what is nested too deeply to
 * be written says so.
 */
export function createRedactor(
  secrets: readonly Secret[],
  isHarmless: (key: string) => boolean = () => false,
): Redactor {
  const names = new Map<string, string>();
  const labelOf = createLabels();
  let replace: Replace | undefined;
  const current = (): Replace => (replace ??= replaceAll(names, labelOf, isHarmless));
  const add = ({ name, value }: Secret): void => {
    const label = labelOf(name, value);
    for (const form of writtenForms(value)) names.set(form, label);
    for (const whole of new Set([value, value.trim()]))
      for (const [text, encoding] of encodedForms(whole))
        if (!names.has(text) && !isTraceWord(text)) names.set(text, `${label} ${encoding}`);
    replace = undefined;
  };
  for (const secret of secrets) add(secret);
  const isClean = (json: string): boolean =>
    !current().finder.mayBeIn(json) && !shapeHints.test(json) && !secretMark.test(json);
  const change = <T>(value: T, redactText: (text: string) => string): T => {
    const json = writeJson(value);
    return json !== undefined && isClean(json)
      ? value
      : (redactValue(value, { ...current(), redactText }) as T);
  };
  const redact = <T>(value: T): T => change(value, current().redactText);
  const fromOutside = <T>(value: T): T =>
    change(value, (text) => current().redactText(withoutSecretMarks(text)));
  const nameIn = (text: string): string | undefined => {
    const found = current()
      .finder.findIn(text)
      .find(({ whole }) => whole);
    return found && names.get(found.form);
  };
  const valueOf = (name: string): string | undefined => [...names].find(([, label]) => label === name)?.[0];
  return Object.assign(redact, { fromOutside, isClean, nameIn, add, valueOf });
}

/** Replaces the secrets that are known so far. */
interface Replace {
  readonly finder: SecretFinder;
  readonly redactText: (text: string) => string;
  readonly redactNumber: (value: number) => unknown;
}

function replaceAll(
  names: ReadonlyMap<string, string>,
  labelOf: LabelOf,
  isHarmless: (key: string) => boolean,
): Replace {
  const forms = [...names.keys()];
  const finder = new SecretFinder(forms);
  const known = new Map<string, string>();
  const markOf = ({ form, whole }: SecretMatch): string => {
    const what = `${whole ? "" : "part of "}secret:${names.get(form) ?? labelOf(unknownKey, form)}`;
    const mark = known.get(what) ?? markFor(what, forms);
    if (known.size < maxLabels) known.set(what, mark);
    return mark;
  };
  const redactText = (text: string): string => {
    const findings = finder.findIn(text);
    for (const { 0: key, index: start } of text.matchAll(knownShape))
      if (!isHarmless(key)) findings.push({ start, end: start + key.length, form: key, whole: true });
    return replaced(text, findings, markOf);
  };
  return {
    finder,
    redactText,
    redactNumber(value) {
      const text = String(value);
      return secretNumber.test(text) && names.has(text) ? redactText(text) : value;
    },
  };
}

/** Replaces what begins first, and of that the longest; of what overlaps with it, the rest. */
function replaced(
  text: string,
  findings: readonly SecretMatch[],
  markOf: (finding: SecretMatch) => string,
): string {
  if (findings.length === 0) return text;
  const pieces: string[] = [];
  let end = 0;
  for (const next of findings.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    if (next.end <= end) continue;
    pieces.push(text.slice(end, next.start), markOf(next));
    end = next.end;
  }
  pieces.push(text.slice(end));
  return pieces.join("");
}

/** Different values that are distinguished; a server can invent keys without end. */
const maxLabels = 1000;

type LabelOf = (name: string, value: string) => string;

/** Gives each secret value a name of its own, `NAME`, `NAME 2` and so on: two secrets must not look like one. */
function createLabels(): LabelOf {
  const known = new Map<string, string>();
  const counts = new Map<string, number>();
  return (name, value) => {
    const key = `${name}\n${value}`;
    const count = (counts.get(name) ?? 0) + 1;
    const label = known.get(key) ?? (count === 1 ? name : `${name} ${count}`);
    if (known.has(key) || known.size >= maxLabels) return label;
    counts.set(name, count);
    known.set(key, label);
    return label;
  };
}

/** JSON, or undefined for what has none: a value nested too deeply, or none at all. */
export function writeJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    // A walk through the value cuts it off where it gets too deep.
    return undefined;
  }
}

/** What stands in the place of a secret: never a text that is, or with its neighbours becomes, a secret again. */
function markFor(what: string, forms: readonly string[]): string {
  const marks = [`[${what}]`, "[***]"];
  return marks.find((mark) => !forms.some((form) => overlap(form, mark))) ?? "‹***›";
}

function overlap(form: string, mark: string): boolean {
  if (mark.includes(form) || form.includes(mark)) return true;
  const cuts = Array.from({ length: mark.length - 1 }, (_, index) => index + 1);
  return cuts.some((cut) => form.endsWith(mark.slice(0, cut)) || form.startsWith(mark.slice(cut)));
}

/** The value without secrets; itself when there are none. */
function redactValue(value: unknown, replace: Replace, depth = 0): unknown {
  if (typeof value === "string") return replace.redactText(value);
  if (typeof value === "number") return replace.redactNumber(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth > maxRecordDepth) return "[nested too deeply to record]";
  const redactItem = (item: unknown): unknown => redactValue(item, replace, depth + 1);
  if (Array.isArray(value)) {
    const changed = value.map(redactItem);
    return changed.every((item, index) => Object.is(item, value[index])) ? value : changed;
  }
  let isSame = true;
  const entries = Object.entries(value).map(([key, item]) => {
    const [newKey, newItem] = [replace.redactText(key), redactItem(item)];
    if (newKey !== key || !Object.is(newItem, item)) isSame = false;
    return [newKey, newItem] as const;
  });
  return isSame ? value : Object.fromEntries(withDistinctKeys(entries));
}

/** Two secrets as keys of one object must not become one key. */
function withDistinctKeys<T>(entries: readonly (readonly [string, T])[]): (readonly [string, T])[] {
  const seen = new Set<string>();
  return entries.map(([key, item]) => {
    let distinct = key;
    for (let copy = 2; seen.has(distinct); copy += 1) distinct = `${key} ${copy}`;
    seen.add(distinct);
    return [distinct, item];
  });
}

/** Shorter encoded forms are found by chance in what servers send. */
const minEncodedLength = 8;

/**
 * Common encodings of a secret, each with its name: Base64 (RFC 4648, both alphabets, with and without padding, at any place
 * in the encoded bytes, as in `Basic`), hexadecimals of its UTF-8, percent signs for every byte, HTML, and the other case.
 */
function encodedForms(value: string): readonly (readonly [text: string, encoding: string])[] {
  const bytes = Buffer.from(value);
  const hex = bytes.toString("hex");
  const percent = hex.replaceAll(/../g, "%$&");
  const markup = Array.from(value, (character) => entities[character] ?? character).join("");
  const forms: Readonly<Record<string, readonly string[]>> = {
    base64: base64Forms(bytes).flatMap((text) => [text, ...jsonForms(text), ...urlForms(text)]),
    hex: [hex, hex.toUpperCase()],
    percent: [percent, percent.replaceAll(/[a-f]/g, (digit) => digit.toUpperCase())],
    html: ["&#39;", "&#x27;", "&apos;"].map((apostrophe) => markup.replaceAll("'", apostrophe)),
    "upper case": [value.toUpperCase()],
    "lower case": [value.toLowerCase()],
  };
  return Object.entries(forms).flatMap(([encoding, texts]) =>
    [...new Set(texts)]
      .filter((text) => text.length >= minEncodedLength && text !== value)
      .map((text) => [text, encoding] as const),
  );
}

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** The whole encoding, and for each place in a group of three bytes the characters that do not depend on other bytes. */
function base64Forms(bytes: Buffer): string[] {
  const inside = [0, 1, 2].map((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  const whole = bytes.toString("base64");
  const standard = [whole, whole.replace(/=+$/, ""), ...inside];
  return [...standard, ...standard.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"))];
}

/** Shorter values are too common to be told from other text. */
const minSecretLength = 4;
/** Shorter lines of a value of several lines are braces and the like. */
const minLineLength = 8;

/**
 * The ways in which a secret may stand in a text: as it is, trimmed, line by line, quoted for a shell once or twice, and each
 * of these as JSON and URLs write it. Empty for a value under four characters; no form is shorter than that.
 */
export function writtenForms(value: string): readonly string[] {
  if (value.length < minSecretLength) return [];
  const lines = value.split(/\r\n|\n|\r/).map((line) => line.trim());
  const plain = [value, value.trim(), ...lines.filter((line) => line.length >= minLineLength)];
  const quoted = plain.map((part) => part.replaceAll("'", String.raw`'\''`));
  const twice = quoted.map((part) => part.replaceAll("'", String.raw`'\''`));
  const parts = [...new Set([...plain, ...quoted, ...twice])];
  const forms = parts.flatMap((part) => [part, ...jsonForms(part), ...urlForms(part)]);
  return [...new Set(forms)].filter((form) => form.length >= minSecretLength);
}

/** Inside a JSON string, and inside a JSON string that is itself written inside one. */
function jsonForms(text: string): string[] {
  const once = jsonStrings(text);
  return [...once, ...once.flatMap(jsonStrings)];
}

/** The inside of a JSON string, as JavaScript, Python and PHP write it by default. */
function jsonStrings(text: string): string[] {
  const plain = JSON.stringify(text).slice(1, -1);
  const ascii = plain.replaceAll(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return [plain, ascii].flatMap((form) => [form, form.replaceAll("/", String.raw`\/`)]);
}

/** In a URL as encodeURIComponent, encodeURI, RFC 3986 and HTML forms write it, with capital or small hexadecimals. */
function urlForms(text: string): string[] {
  const whole = text.toWellFormed();
  const component = encodeURIComponent(whole);
  const form = component.replaceAll(/[!'()~]/g, percent).replaceAll("%20", "+");
  const forms = [component, encodeURI(whole), component.replaceAll(/[!'()*]/g, percent), form];
  return forms.flatMap((written) => [
    written,
    written.replaceAll(/%[0-9A-F]{2}/g, (hex) => hex.toLowerCase()),
  ]);
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** The members and fixed values of trace events, JSON-RPC, MCP tools and JSON Schema. */
const words = [
  ...eventTypes,
  ...`
  seq at trial type task agent attempt phase durationMs server transport target pid name version protocolVersion tools
  text stream bytes exitCode signal expected by direction message raw method status requestIds kind model turn user
  reason tool args purpose finishReason usage inputTokens outputTokens cacheReadTokens cacheWriteTokens requests delayMs throttledMs from to
  cost amount currency isPartial firstTokenMs transcript session remarks imported run failuresUnknown reported
  step stepType input outcome checks error verdict score grades passed actual code hint detail grader evidence threshold
  votes servers verify stop stdio shttp sse stderr stdout stdin SIGTERM SIGKILL already-exited disconnect
  client-to-server server-to-client scripted done max-steps judge completed timeout interrupted not-started pass fail
  skip result latency call environment bug client via http bridge id heldMs fault callId source builtin mcp: unknown
  started failed parentCallId title malformed decision allowed denied cancelled policy path action created replaced
  user-model user-script gave-up max-turns agent-cut-off program reused max-tokens context-overflow limit refused unmatched extension package protocol sandbox json-rpc one-shot none process docker
  level debug info warn count log agent.told folder skills mock delay drop truncate calls causes sideEffect notRun
  pathMissing files file other link size sha256 incomplete probe setup cleanup fixtures survivors proxy skipped outputs
  ignored doubt prompt question handshake lists unknown-method unknown-tool missing-params unknown-notification
  cancellation concurrent malformed-json not-json-rpc logging completions unknown-session foreign-origin shutdown
  second-start cancelled-call concurrent-calls first-listing second-listing unanswered scenario sources differences
  succeeded resisted not-delivered proved-nothing no-tool needed-tool ended prompts resources hides series variant
  untouched access trace comparison resolve relist other-client all-tools later-start sessions crossed-sessions anonymous wrong-token
  borrowed-session borrowed-session-wrong-token preflight origin allowOrigin allowHeaders allowCredentials hasToken secrets attack
  canary class channel embedded-resource instructions changed-description parameters url part changes announcement write delete network host accepted date profile watched weight secondJudge judged findings severity warning clients changed parameter pointer
  jsonrpc params data initialize initialized notifications/initialized notifications/cancelled requestId tools/list
  tools/call ping arguments capabilities serverInfo clientInfo content image audio resource resource_link uri mimeType
  blob isError structuredContent _meta inputSchema outputSchema nextCursor cursor description annotations title
  object string number integer boolean array properties required additionalProperties items enum const pattern format
  minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems
  minProperties maxProperties patternProperties propertyNames prefixItems contains unevaluatedProperties
  unevaluatedItems dependentRequired dependentSchemas allOf anyOf oneOf $schema $defs definitions $ref $anchor
  $dynamicRef default examples then else
`
    .trim()
    .split(/\s+/),
];

/**
 * Whether a text is such a word or a part of one. Replaced in an event it would hide from the graders what happened: an
 * `isError`, a method, the event itself.
 */
export function isTraceWord(text: string): boolean {
  return words.some((word) => word.includes(text));
}
