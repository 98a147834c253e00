import { argumentRefusal } from "../templates/shell.ts";
import { didYouMean, suggestion } from "./did-you-mean.ts";
import { asList, asObject, formatKeyPath, type KeyPath } from "./json.ts";
import type { Problem } from "./problem.ts";

/** Names in braces that are replaced in a program's command line, besides `{servers.NAME.url}`; see `CommandAgentSpec`. */
export const templateNames = [
  "prompt",
  "promptJson",
  "workspace",
  "cwd",
  "mcpConfig",
  "model",
  "session",
] as const;
export type TemplateName = (typeof templateNames)[number];

/** Finds `{{`, words in braces, and addresses of servers; the name and the server are its groups. */
export const templatePlace = /\{\{|\{(\w+)\}|\{servers\.([^{}]+)\.url\}/g;

/** Whether a text has a name that is replaced. */
export function mentions(text: string, name: TemplateName): boolean {
  return [...text.matchAll(templatePlace)].some(([, found]) => found === name);
}

/** Notes on command agents that are not given the prompt: one sentence each. */
export function promptNotes(
  agents: readonly {
    readonly type: string;
    readonly name: string;
    readonly command?: string;
    readonly args?: readonly string[];
    readonly nextArgs?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
    readonly stdin?: boolean;
  }[],
): string[] {
  return agents.flatMap(
    ({ type, name, command = "", args = [], nextArgs = args, env = {}, stdin = false }) => {
      if (type !== "command" || stdin) return [];
      const takesPrompt = (list: readonly string[]): boolean =>
        [command, ...list, ...Object.values(env)].some(
          (text) => mentions(text, "prompt") || mentions(text, "promptJson"),
        );
      if (!takesPrompt(args)) {
        const way = "write {prompt} into its arguments, or set stdin: true";
        return [`agent "${name}" is never given the prompt: ${way}`];
      }
      return takesPrompt(nextArgs)
        ? []
        : [`agent "${name}" is not given the prompt after the first turn: nextArgs has no {prompt}`];
    },
  );
}

/** The agents that a file declares, as they are written or parsed. */
export interface DeclaredAgents {
  readonly agent?: unknown;
  readonly agents?: unknown;
}

export interface AgentTemplatesOptions {
  /** Where in the document the keys `agent` and `agents` stand. */
  readonly path?: KeyPath;
  /** Every server that some trial may have. */
  readonly servers: readonly string[];
}

export interface AgentTemplates {
  readonly problems: readonly Problem[];
  /** What stays as it is, although it looks much like something that is replaced. */
  readonly notes: readonly string[];
}

/**
 * Checks what is in braces in the command lines of agents that are programs. Servers that no trial has are wrong, and so are
 * names in another spelling; what only looks like a name is noted, and all else is text.
 */
export function checkAgentTemplates(
  { agent, agents }: DeclaredAgents,
  { path = [], servers }: AgentTemplatesOptions,
): AgentTemplates {
  const places = [
    ...textsOf(agent, [...path, "agent"]),
    ...Object.entries(asObject(agents)).flatMap(([name, each]) => textsOf(each, [...path, "agents", name])),
  ];
  const found = places.flatMap((place) => [...checkText(place, servers), ...checkProgramText(place)]);
  return {
    problems: found.filter((each) => typeof each !== "string"),
    notes: [...new Set(found.filter((each) => typeof each === "string"))],
  };
}

/** Why a text in braces is refused, or a note on it. */
type Finding = Problem | string;

interface Place {
  readonly path: KeyPath;
  /** It is part of the command line, which every user of the machine can read while the program runs. */
  readonly isPublic: boolean;
  /** Of an argument: the program and the arguments before it. */
  readonly before?: readonly string[];
}

interface PlacedText extends Place {
  readonly text: string;
}

function textsOf(agent: unknown, path: KeyPath): PlacedText[] {
  const { type, command, args, nextArgs, env } = asObject(agent);
  if (type !== "command") return [];
  const found: (Place & { readonly text: unknown })[] = [
    { text: command, path: [...path, "command"], isPublic: true },
  ];
  for (const [key, list] of Object.entries({ args: asList(args), nextArgs: asList(nextArgs) }))
    for (const [index, text] of list.entries()) {
      const before = [command, ...list.slice(0, index)].map(String);
      found.push({ text, path: [...path, key, index], isPublic: true, before });
    }
  for (const [name, text] of Object.entries(asObject(env)))
    found.push({ text, path: [...path, "env", name], isPublic: false });
  return found.flatMap(({ text, ...place }) => (typeof text === "string" ? [{ text, ...place }] : []));
}

/** The prompt and the session come from outside, so they must not be part of a program's code. */
function checkProgramText({ text, path, before }: PlacedText): Problem[] {
  const said = before === undefined ? null : /\{(?:prompt|session)\}/.exec(text);
  const refusal = said === null ? undefined : argumentRefusal(before ?? [], text.slice(0, said.index));
  if (said === null || refusal === undefined) return [];
  const message = `${formatKeyPath(path)}: ${said[0]} stands ${refusal}, so that a part of it could be run`;
  const hint = `Give it as an argument after the program's text, in env, or with stdin: true.`;
  return [{ code: "config/invalid-value", message, path, at: "value", text: said[0], hint }];
}

const braces = /\{\{(?:\s*(\w+)\s*\}\})?|\{([^{}\n]*)\}/g;

function checkText({ text, ...place }: PlacedText, servers: readonly string[]): Finding[] {
  return [...text.matchAll(braces)].flatMap(([written, doubled = "", inner = ""]): Finding[] => {
    if (isName(doubled)) {
      const where = formatKeyPath(place.path);
      return [`${written} in ${where} writes {${doubled}}}; did you mean {${doubled}}?`];
    }
    return inner === "" || isName(inner) ? [] : checkInner(inner, written, place, servers);
  });
}

function isName(word: string): boolean {
  return templateNames.some((name) => name === word);
}

function checkInner(inner: string, text: string, place: Place, servers: readonly string[]): Finding[] {
  const { path, isPublic } = place;
  const where = `${text} in ${formatKeyPath(path)}`;
  const problem = (code: Problem["code"], message: string, hint: string): Problem[] => [
    { code, message, path, at: "value", text, hint },
  ];
  const server = /^servers\.(.+)\.url$/.exec(inner)?.[1];
  if (server !== undefined && !servers.includes(server)) {
    const message = `${where}: no server is named ${JSON.stringify(server.slice(0, 80))}`;
    return problem("config/unknown-reference", message, suggestion(server, servers, "servers"));
  }
  if (server !== undefined) {
    // The address of the gateway holds the secret that lets its holder call the server's tools.
    const message = `${where} would show a secret address to every user of this machine (ps)`;
    const hint = `Write it into a variable, such as env: { URL: "${text}" }, or use {mcpConfig}, a file that only you can read.`;
    return isPublic ? problem("config/public-secret", message, hint) : [];
  }
  const word = inner.trim();
  if (!/^[\w.-]+$/.test(word)) return [];
  const same = templateNames.find((name) => folded(name) === folded(word));
  if (word === inner && (same !== undefined || word.startsWith("servers."))) {
    const hint = `Did you mean {${same ?? nearAddress(word, servers)}}? For the text itself write {${text}.`;
    return problem("config/unknown-reference", `${where} is not a placeholder`, hint);
  }
  const near = didYouMean(word, [...templateNames, ...servers.map(address)]);
  return near === undefined ? [] : [`${where} stays as it is; did you mean {${near}}?`];
}

function folded(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, "");
}

function address(server: string): string {
  return `servers.${server}.url`;
}

function nearAddress(word: string, servers: readonly string[]): string {
  const [, name = ""] = word.split(".");
  return address(servers.includes(name) ? name : (didYouMean(name, servers) ?? "NAME"));
}
