import { asList, asObject } from "../../core/formats/json.ts";
import type { AgentSpec, JudgeSpec, ServerSpec } from "../../core/formats/model.ts";
import type { Secret } from "../../core/trace/redact.ts";
import type { EnvironmentVariables } from "../environment.ts";
import { isSecretName, isSecretValue, secretsInUrls } from "./secret-names.ts";

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
  readonly agents?: readonly AgentSpec[];
}

/** Headers that say nothing secret. */
const harmlessHeaders =
  /^(?:accept(?:-.*)?|content-.*|user-agent|host|origin|referer|connection|cache-control|pragma|date|mcp-protocol-version|anthropic-(?:version|beta)|openai-(?:organization|project|beta)|http-referer|x-title|x-request-id)$/i;

/** Every value that must never be written, with the name to show for it; each value once. */
export function collectSecrets(sources: SecretSources): Secret[] {
  const { document, variables, overrides, environment, serverEnvironments = [] } = sources;
  const { servers = [], judge, agents = [] } = sources;
  const found = [
    ...documentSecrets(document),
    ...variableSecrets(Object.fromEntries(variables)),
    ...variableSecrets(overrides),
    ...serverEnvironments.flatMap(variableSecrets),
    ...servers.flatMap((server) => serverSecrets(asObject(server))),
    ...[judge, ...agents].flatMap((model) => modelSecrets(asObject(model))),
    ...agents.flatMap((agent) => programSecrets(asObject(agent))),
    ...providerKeys(environment),
  ];
  const byValue = new Map<string, string>();
  for (const { name, value } of found) {
    if (isSecretValue(name, value) && !byValue.has(value)) byValue.set(value, name);
  }
  return [...byValue].map(([value, name]) => ({ name, value }));
}

/** Keys of model providers: no server or report has a reason to repeat them. */
function providerKeys(environment: EnvironmentVariables): Secret[] {
  return secretsByName(
    Object.entries(environment).filter(([name]) =>
      /_API_KEY$|^(?:ANTHROPIC|CLAUDE|OPENAI)_.*TOKEN$/.test(name),
    ),
  );
}

function variableSecrets(variables: EnvironmentVariables): Secret[] {
  return Object.entries(variables).flatMap(([name, value]) => [
    ...secretsByName(wordsIn(value).map((secret) => [name, secret] as const)),
    ...(isSecretName(name) ? secretParts(name, value) : []),
    ...secretsInUrls(value, name),
  ]);
}

/** Words after others than these are part of what is secret. */
function wordsIn(value: string): readonly string[] {
  return /^(?:basic|bearer)\s/i.test(value) ? credentialsIn(value) : [value];
}

/** Shorter texts inside a secret that is JSON are kinds, names and the like. */
const shortestPart = 12;

/** The texts inside a secret that is a JSON document: a template can take them out one by one. */
function secretParts(name: string, value: string): Secret[] {
  if (!/^\s*[[{]/.test(value)) return [];
  return leavesOf(parsedJson(value))
    .filter((text) => text.length >= shortestPart)
    .map((text) => ({ name, value: text }));
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // then it is a secret of another form, and hidden as a whole
  }
}

function leavesOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(leavesOf) : [];
}

function documentSecrets(document: unknown): Secret[] {
  const root = asObject(document);
  const tables = [root, ...Object.values(asObject(root["variants"])).map(asObject)];
  const servers = [
    root["server"],
    ...tables
      .flatMap((table) => [table["servers"], table["mcp_servers"]])
      .flatMap((table) => Object.values(asObject(table))),
  ];
  const models = [root["agent"], root["judge"], ...Object.values(asObject(root["agents"]))];
  return [
    ...keySecret("openaiKey", root["openaiKey"]),
    ...servers.flatMap((server) => serverSecrets(asObject(server))),
    ...models.flatMap((model) => [...modelSecrets(asObject(model)), ...programSecrets(asObject(model))]),
  ];
}

type Members = Readonly<Record<string, unknown>>;

/** Agents that are programs. */
function programSecrets(agent: Members): Secret[] {
  return [
    ...serverSecrets(agent),
    ...textsIn([asObject(agent["modelProxy"])["target"]]).flatMap((url) => secretsInUrls(url, "modelProxy")),
  ];
}

function authSecrets({ token, clientId, clientSecret }: Members): Secret[] {
  const both = [clientId, clientSecret].every((part) => typeof part === "string")
    ? `${String(clientId)}:${String(clientSecret)}`
    : undefined;
  return [
    ...keySecret("token", token),
    ...keySecret("clientSecret", clientSecret),
    ...keySecret("clientSecret", both),
  ];
}

function modelSecrets(model: Members): Secret[] {
  return [
    ...keySecret("apiKey", model["apiKey"]),
    ...headerSecrets(model["headers"]),
    ...textsIn([model["baseURL"]]).flatMap((url) => secretsInUrls(url, "baseURL")),
  ];
}

function serverSecrets(server: Members): Secret[] {
  const args = textsIn(asList(server["args"]));
  const commandLine = [...textsIn([server["command"]]), ...args];
  return [
    ...headerSecrets(server["headers"]),
    ...authSecrets(asObject(server["auth"])),
    ...textEntries(server["env"]).flatMap(([name, value]) => variableSecrets({ [name]: value })),
    ...flagSecrets(args),
    ...commandLine.flatMap((text) => secretsInUrls(text, "args")),
    ...textsIn([server["url"]]).flatMap((url) => secretsInUrls(url, "url")),
  ];
}

function keySecret(name: string, value: unknown): Secret[] {
  return typeof value === "string" ? [{ name, value }] : [];
}

function headerSecrets(headers: unknown): Secret[] {
  return textEntries(headers).flatMap(([name, value]) => {
    if (harmlessHeaders.test(name)) return [];
    const secrets = /cookie/i.test(name) ? [value, ...cookiesIn(value)] : credentialsIn(value);
    return secrets.map((secret) => ({ name, value: secret }));
  });
}

/** Values of `--token=VALUE` and of `--token VALUE`, of `API_KEY=VALUE`, and of headers such as `Authorization: VALUE`. */
function flagSecrets(args: readonly string[]): Secret[] {
  return args.flatMap((arg, index) => {
    const [, assigned, written] = /^([A-Za-z_][\w.-]*)(?:=|:\s+)(.+)$/s.exec(arg) ?? [];
    if (assigned !== undefined && written !== undefined)
      return secretsByName(credentialsIn(written).map((secret) => [assigned, secret] as const));
    const [, name, value] = /^-{1,2}([\w.-]+)(?:=(.*))?$/s.exec(arg) ?? [];
    if (name === undefined) return [];
    const next = args[index + 1];
    const given = value ?? (next?.startsWith("-") === true ? undefined : next);
    return given === undefined ? [] : secretsByName([[name, given]]);
  });
}

function secretsByName(entries: readonly (readonly [name: string, value: string])[]): Secret[] {
  return entries
    .filter(([name, value]) => isSecretName(name) && isSecretValue(name, value))
    .map(([name, value]) => ({ name, value }));
}

function textEntries(value: unknown): [string, string][] {
  return Object.entries(asObject(value)).flatMap(([name, member]): [string, string][] =>
    typeof member === "string" ? [[name, member]] : [],
  );
}

function textsIn(values: readonly unknown[]): string[] {
  return values.filter((value) => typeof value === "string");
}

/** Schemes of `Authorization` that many servers have; they are not secret. */
const knownScheme = /^(?:apikey|basic|bearer|dpop|key|token)$/i;
/** Shorter credentials are not looked for by themselves. */
const shortestCredentials = 4;

/**
 * What is secret in the value of a header: all of it, but of `Bearer X` and the like only X, and of `Basic` also what it
 * encodes: the user with the password, and the password.
 */
export function credentialsIn(value: string): readonly string[] {
  const [, scheme = "", credentials] = /^([A-Za-z][\w-]*)\s+(\S+)$/.exec(value) ?? [];
  if (credentials === undefined) return [value];
  const tellsNothing = knownScheme.test(scheme) && credentials.length >= shortestCredentials;
  return [
    ...(tellsNothing ? [] : [value]),
    credentials,
    ...(scheme.toLowerCase() === "basic" ? userAndPassword(credentials) : []),
  ];
}

function userAndPassword(encoded: string): string[] {
  const pair = Buffer.from(encoded, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon === -1 ? [] : [pair, pair.slice(colon + 1)];
}

/** Shorter values of cookies are settings. */
const shortestCookie = 8;

/** The values in the header `Cookie` that may be secret. */
function cookiesIn(value: string): readonly string[] {
  const values = value.split(/;\s*/).map((pair) => pair.slice(pair.indexOf("=") + 1));
  return values.filter((each) => each.length >= shortestCookie);
}
