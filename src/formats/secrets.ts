import { asList, asObject, asText } from "../base/json.ts";
import type { AgentSpec, ModelSpec } from "../model/agent.ts";
import type { ExtensionSpec, Task } from "../model/task.ts";
import type { JudgeSpec } from "../model/eval.ts";
import { type ServerSpec, mapServerTexts } from "../model/server.ts";
import { kindOf, walkSteps } from "../model/step.ts";
import { isTraceWord, type Secret } from "../trace/redact.ts";
import { type EnvironmentVariables, pickVariables, variableNamed } from "./environment.ts";

/** Everything that a run is given and that may hold secrets. */
export interface SecretSources {
  /** The config with its variables replaced, valid or not. */
  readonly document: unknown;
  /** Variables that were put into the config. */
  readonly variables: ReadonlyMap<string, string>;
  /** Variables from the command line. */
  readonly overrides: EnvironmentVariables;
  /** The environment of this process. */
  readonly environment: EnvironmentVariables;
  /** The environments of servers, and variables of tasks. */
  readonly serverEnvironments?: readonly EnvironmentVariables[];
  /** Servers, complete. */
  readonly servers?: readonly ServerSpec[];
  readonly judge?: JudgeSpec | undefined;
  readonly userModel?: ModelSpec | undefined;
  readonly agents?: readonly AgentSpec[];
}

/** Every value that must never be written, with the name to show for it; each value once. */
export function collectSecrets(sources: SecretSources): Secret[] {
  const { document, variables, overrides, environment, serverEnvironments = [] } = sources;
  const { servers = [], judge, userModel, agents = [] } = sources;
  const found = [
    ...configSecrets(document),
    ...[Object.fromEntries(variables), overrides, ...serverEnvironments].flatMap(variableSecrets),
    ...[...servers, judge, userModel, ...agents].flatMap(partSecrets),
    // Keys of model providers: no server or report has a reason to repeat them.
    ...Object.entries(environment)
      .filter(([name]) =>
        /_API_KEY$|^(?:ANTHROPIC|CLAUDE|OPENAI)_.*TOKEN$|^AWS_(?:BEARER_TOKEN_BEDROCK|ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)$/.test(
          name,
        ),
      )
      .map(([name, value]) => ({ name, value })),
  ];
  const byValue = new Map<string, string>();
  for (const { name, value } of found)
    if (isSecretValue(name, value) && !byValue.has(value)) byValue.set(value, name);
  return [...byValue].map(([value, name]) => ({ name, value }));
}

/** Secrets in the servers, agents and judge of a config of any shape. */
function configSecrets(document: unknown): Secret[] {
  const root = asObject(document);
  const tables = [root, ...Object.values(asObject(root["variants"])).map(asObject)];
  const servers = tables.map((table) => table["servers"]);
  const parts = [...servers, root["agents"]].flatMap((table) => Object.values(asObject(table)));
  return [
    ...textsIn([root["openaiKey"]]).map((value) => ({ name: "openaiKey", value })),
    ...[root["server"], root["agent"], root["judge"], root["userModel"], ...parts].flatMap(partSecrets),
  ];
}

/** Secrets of a server, an agent, a judge or another model. */
function partSecrets(part: unknown): Secret[] {
  const whole = asObject(part);
  const { headers, auth, url, apiKey, baseURL, modelProxy } = whole;
  // The model has the program of a server with a URL apart.
  const { env, args, command } = { ...whole, ...asObject(whole["program"]) };
  const { token, clientId, clientSecret } = asObject(auth);
  const [id, secret] = textsIn([clientId, clientSecret]);
  const both = secret === undefined ? undefined : `${id}:${secret}`;
  const addresses = { args: [command, ...asList(args)], url: [url], baseURL: [baseURL] };
  const texts = Object.entries({ ...addresses, modelProxy: [asObject(modelProxy)["target"]] });
  return [
    ...[{ apiKey }, { token }, { clientSecret }, { clientSecret: both }]
      .flatMap(textEntries)
      .map(([name, value]) => ({ name, value })),
    ...textEntries(headers).flatMap(([name, value]) => headerSecrets(name, value)),
    ...textEntries(env).flatMap(([name, value]) => variableSecrets({ [name]: value })),
    ...argumentSecrets(textsIn(asList(args))),
    ...texts.flatMap(([name, values]) => textsIn(values).flatMap((text) => secretsInUrls(text, name))),
    ...textsIn([url]).flatMap((text) => tokensInPath(text).map((value) => ({ name: "url", value }))),
  ];
}

function variableSecrets(variables: EnvironmentVariables): Secret[] {
  return Object.entries(variables).flatMap(([name, value]) => {
    // Words after others than these are part of what is secret.
    const whole = /^(?:basic|bearer)\s/i.test(value) ? credentialsIn(value) : [value];
    const secrets = isSecretName(name) ? [...whole, ...textsInJson(value)] : [];
    return [...secrets.map((secret) => ({ name, value: secret })), ...secretsInUrls(value, name)];
  });
}

/** Shorter texts inside a secret that is JSON are kinds, names and the like. */
const minPartLength = 12;

/** The texts inside a secret that is a JSON document: a template can take them out one by one. */
function textsInJson(text: string): string[] {
  const leavesOf = (value: unknown): string[] => {
    if (typeof value === "string") return value.length >= minPartLength ? [value] : [];
    return typeof value === "object" && value !== null ? Object.values(value).flatMap(leavesOf) : [];
  };
  if (!/^\s*[[{]/.test(text)) return [];
  try {
    return leavesOf(JSON.parse(text));
  } catch {
    return []; // then it is a secret of another form, and hidden as a whole
  }
}

/** Headers that say nothing secret. */
const harmlessHeaders =
  /^(?:accept(?:-.*)?|content-.*|user-agent|host|origin|referer|connection|cache-control|pragma|date|mcp-protocol-version|anthropic-(?:version|beta)|openai-(?:organization|project|beta)|http-referer|x-title|x-request-id)$/i;
/** Shorter values of cookies are settings. */
const minCookieLength = 8;

function headerSecrets(name: string, header: string): Secret[] {
  if (harmlessHeaders.test(name)) return [];
  const cookies = header.split(/;\s*/).map((pair) => pair.slice(pair.indexOf("=") + 1));
  const values = /cookie/i.test(name)
    ? [header, ...cookies.filter((cookie) => cookie.length >= minCookieLength)]
    : credentialsIn(header);
  return values.map((value) => ({ name, value }));
}

/** Values of `--token=VALUE` and of `--token VALUE`, of `API_KEY=VALUE`, and of headers such as `Authorization: VALUE`. */
function argumentSecrets(args: readonly string[]): Secret[] {
  return args.flatMap((arg, index) => {
    const [, assigned, written = ""] = /^([A-Za-z_][\w.-]*)(?:=|:\s+)(.+)$/s.exec(arg) ?? [];
    const [, flag, given] = /^-{1,2}([\w.-]+)(?:=(.*))?$/s.exec(arg) ?? [];
    const next = args[index + 1];
    const value = given ?? (next?.startsWith("-") === true ? undefined : next);
    const name = assigned ?? flag;
    if (name === undefined || !isSecretName(name)) return [];
    const values = assigned === undefined ? [value] : credentialsIn(written);
    return textsIn(values).map((secret) => ({ name, value: secret }));
  });
}

function textEntries(value: unknown): [name: string, value: string][] {
  return Object.entries(asObject(value)).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
}

function textsIn(values: readonly unknown[]): string[] {
  return values.filter((value) => typeof value === "string");
}

/** Schemes of `Authorization` that many servers have; they are not secret. */
const knownScheme = /^(?:apikey|basic|bearer|dpop|key|token)$/i;
/** Shorter credentials are not looked for by themselves. */
const minCredentialsLength = 4;

/**
 * What is secret in the value of a header: all of it, but of `Bearer X` and the like only X, and of `Basic` also what it
 * encodes: the user with the password, and the password.
 */
function credentialsIn(value: string): readonly string[] {
  const [, scheme = "", credentials] = /^([A-Za-z][\w-]*)\s+(\S+)$/.exec(value) ?? [];
  if (credentials === undefined) return [value];
  const isPlain = knownScheme.test(scheme) && credentials.length >= minCredentialsLength;
  const pair = /^basic$/i.test(scheme) ? Buffer.from(credentials, "base64").toString("utf8") : "";
  return [
    ...(isPlain ? [] : [value]),
    credentials,
    ...(pair.includes(":") ? [pair, pair.slice(pair.indexOf(":") + 1)] : []),
  ];
}

/** Texts that an extension is started with and that may be secret, by their names; a name may come more than once. */
export function extensionVariables(extension: Pick<ExtensionSpec, "config" | "env">): EnvironmentVariables[] {
  const inside = (name: string, value: unknown): EnvironmentVariables[] => {
    const text = asText(value);
    if (text !== undefined) return [{ [name]: text }];
    if (typeof value !== "object" || value === null) return [];
    // The items of a list go by the name of the list.
    return Object.entries(value).flatMap(([key, member]) =>
      inside(Array.isArray(value) ? name : key, member),
    );
  };
  return [extension.env, ...inside("config", extension.config)];
}

/**
 * Variables of a task that may hold secrets: those that its text names, its own, those that it inherits, those of its
 * extensions and what its steps have of their own. What a template makes only when a trial runs is left out.
 */
export function taskVariables(
  text: string,
  { portable, verify }: Task,
  environment: EnvironmentVariables,
): { readonly named: EnvironmentVariables; readonly all: readonly EnvironmentVariables[] } {
  const { env = {}, inheritEnv = [], extensions = {}, setup = [], cleanup = [] } = portable ?? {};
  const names = [...text.matchAll(/\{\s*env\.([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)/g)];
  const named = {
    ...pickVariables(inheritEnv, environment),
    ...pickVariables(
      names.flatMap(([, inTemplate, plain]) => inTemplate ?? plain ?? []),
      environment,
    ),
    ...Object.fromEntries(Object.entries(env).filter(([, value]) => !template.test(value))),
  };
  const known = { ...environment, ...env };
  const ofExtensions = Object.values(extensions)
    .flatMap(extensionVariables)
    .flatMap((some) => Object.entries(some))
    .map(([name, value]) => ({ [name]: withKnown(value, known) }));
  const ofSteps = [...walkSteps([...setup, ...verify, ...cleanup])]
    .flatMap((step) => kindOf(step.type).secrets?.(step) ?? [])
    .flatMap(([name, value]) => credentialsIn(withKnown(value, named)).map((each) => ({ [name]: each })));
  return { named, all: [...ofExtensions, named, ...ofSteps] };
}

/** Variables that the programs of a task's graders inherit. */
export function graderVariables(
  { graders = [] }: Task,
  environment: EnvironmentVariables,
): EnvironmentVariables {
  const names = graders.flatMap(({ config }) => textsIn(asList(config["inheritEnv"])));
  return pickVariables(names, environment);
}

/** A server as a trial will have it, as far as that can be known: with the variables that its texts name. */
export function withVariables(server: ServerSpec, variables: EnvironmentVariables): ServerSpec {
  return mapServerTexts(server, (text) => withKnown(text, variables));
}

/** A text with the variables that it names; empty when other templates are in it: nothing secret can be seen in it yet. */
function withKnown(text: string, variables: EnvironmentVariables): string {
  const expanded = text.replaceAll(
    /\{env\.([A-Za-z_]\w*)[^{}]*\}/g,
    (written: string, name: string) => variableNamed(name, variables) ?? written,
  );
  return template.test(expanded) ? "" : expanded;
}

const template = /\{(?:env|random|task|steps|agent|servers)\.|\{workspace\b/;

const always =
  /token(?!iz)|secret|passw(?:or)?d|passphrase|passwd|credential|cookie|private|api[-_.]?key|connection[-_.]?string/i;
/** Words that count only as words of the name, so that PATH, PWD, KEYBOARD and AUTHOR are left alone. */
const asWord =
  /(?:^|[-_.])(?:o?auth(?!or(?:s|ed)?(?:$|[-_.]))|(?:pat|pass(?![-_.](?:rate|threshold)$)|dsn)(?=$|[-_.]))|[-_.]pwd(?=$|[-_.])|keys?(?=$|[-_.])/i;
const quantity = /(?:^|[-_.])(?:max|min|num|count|limit|size|length|ttl|expir|timeout|budget|retries|port)/i;
/** Values that stand for "no secret": switches, kinds of authentication, placeholders that local models take. */
const wordValue =
  /^(?:true|false|null|none|undefined|yes|no|on|off|enabled|disabled|default|basic|bearer|dummy|unused|not-needed|ollama|lm-studio)$/i;

/** Whether a variable, header, flag or query parameter of this name may hold a secret. */
export function isSecretName(name: string): boolean {
  const spread = name.replaceAll(/([a-z\d])([A-Z])/g, "$1_$2");
  return always.test(spread) || always.test(name) || asWord.test(spread);
}

/**
 * Whether a value under a secret's name is worth hiding. Removing `true` or a token limit from every text would garble
 * it and hide nothing; removing a word that traces, MCP or JSON Schema are written in would change what they say.
 */
export function isSecretValue(name: string, value: string): boolean {
  if (value.length < 4 || wordValue.test(value) || isTraceWord(value.trim())) return false;
  return !(quantity.test(name) && /^\d+$/.test(value));
}

const secretParameter = /^(?:sig|signature|code|sas|jwt|session|sid|access|auth|pw)$/i;

/**
 * Passwords and token-like query values of every URL in a text, as written and decoded; `name` is what the text is
 * called. The URLs need not be of the web: database addresses carry passwords too.
 */
function secretsInUrls(text: string, name: string): Secret[] {
  const urls = text.includes("://") ? [...text.matchAll(/[a-z][a-z0-9+.-]*:\/\/[^\s"'<>`]+/gi)] : [];
  return urls
    .flatMap(([url]) => [...passwordOf(url), ...parametersOf(url)])
    .flatMap((value) => [...new Set([value, decoded(value)])])
    .filter((value) => value.length >= 4)
    .map((value) => ({ name, value }));
}

/** Shorter parts of a path are words, versions and ids that many share. */
const minPathTokenLength = 16;

/**
 * Parts of the path of a server's URL that are likely tokens: what follows a name such as `token`, and long parts in which letters and
 * digits are mixed, such as a UUID; services give each user an address of that form. As written and decoded.
 */
export function tokensInPath(url: string): string[] {
  if (!URL.canParse(url)) return [];
  const parts = new URL(url).pathname.split("/").filter((part) => part !== "");
  return parts
    .filter((part, index) => {
      const before = parts[index - 1];
      if (before !== undefined && isSecretName(before)) return part.length >= 8;
      // Before decoding, "%20" between words would look like a mixture.
      const text = decoded(part);
      return (
        text.length >= minPathTokenLength &&
        text.split(/[-_.~\s]/).some((piece) => piece.length >= 8 && isMixed(piece))
      );
    })
    .flatMap((part) => [...new Set([part, decoded(part)])]);
}

/** Whether letters and digits, or capital and small letters, take turns as in no word with a number behind it. */
function isMixed(text: string): boolean {
  return (
    /\d[a-z]+\d/i.test(text) || /[a-z]+\d+[a-z]/i.test(text) || /(?:[a-z][A-Z]+|[A-Z]{2,}[a-z]){4}/.test(text)
  );
}

function passwordOf(url: string): string[] {
  const user = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)@/i.exec(url)?.[1];
  if (user === undefined) return [];
  if (user.includes(":")) return [user.slice(user.indexOf(":") + 1)];
  // A lone user name in front of the host is a token where services take one, as in https://TOKEN@host.
  return user.length >= 16 ? [user] : [];
}

function parametersOf(url: string): string[] {
  const query = /[?#](.*)$/.exec(url)?.[1] ?? "";
  return [...query.matchAll(/([^&;?#=]*)=([^&;?#]*)/g)].flatMap(([, name = "", value = ""]) => {
    const isSecret = isSecretName(name) || secretParameter.test(name);
    return isSecret && isSecretValue(name, value) ? [value] : [];
  });
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value; // not percent-encoded: the text is the value
  }
}

/** The name that something is assigned to, up to where the value begins. */
const assigned = /("[^"]*"|'[^']*'|[\w.-]+)\s*[:=][^\S\n]*/g;
/** A quoted text, or words up to a comma or bracket, with `${VAR}` in them. */
const assignedValue = /"(?:[^"\\]|\\.)*"?|'[^']*'?|(?:\$\{[^}]*\}|[^\n,}\]])+/y;

/**
 * Overwrites secrets in lines of a file with asterisks, so that the columns stay: the given values, passwords in URLs, and
 * whatever is written after a name that looks secret. References such as `${VAR}` stay.
 */
export function maskSecrets(lines: string, values: readonly string[] = []): string {
  const inUrls = secretsInUrls(lines, "").map(({ value }) => value);
  const text = [...values, ...inUrls.filter((value) => !value.includes("${"))]
    .toSorted((a, b) => b.length - a.length)
    .reduce((rest, value) => rest.replaceAll(value, "*".repeat(value.length)), lines);
  let masked = "";
  let end = 0;
  for (const { index, 0: start, 1: name = "" } of text.matchAll(assigned)) {
    if (index < end || !isSecretName(name.replaceAll(/["']/g, ""))) continue;
    assignedValue.lastIndex = index + start.length;
    const value = assignedValue.exec(text)?.[0] ?? "";
    const stars = value.replaceAll(/\$\{[^}]*\}|[^"'\s]/g, (part) => (part.length > 1 ? part : "*"));
    masked += text.slice(end, index + start.length) + stars;
    end = index + start.length + value.length;
  }
  return masked + text.slice(end);
}
