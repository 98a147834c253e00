import { McpvalsError } from "../../core/errors/error.ts";

/** What stands for the names in a program's command line; see `CommandAgentSpec`. */
export interface TemplateValues {
  readonly prompt: string;
  readonly workspace: string;
  readonly cwd: string;
  readonly mcpConfig: string;
  readonly model: string;
  readonly session: string;
  /** Addresses by server. */
  readonly servers: ReadonlyMap<string, string>;
}

const names = ["prompt", "workspace", "cwd", "mcpConfig", "model", "session"] as const;
const place = /\{\{|\{(\w+)\}|\{servers\.([^{}]+)\.url\}/g;

/**
 * Replaces the names in a text. What replaces them is taken as it is; a brace before anything else is a brace, and `{{` is
 * one too. Throws McpvalsError `config/unknown-reference` for a server that is not there.
 */
export function fillTemplate(text: string, values: TemplateValues): string {
  return text.replaceAll(place, (written: string, name?: string, server?: string) => {
    if (written === "{{") return "{";
    if (server !== undefined) return addressOf(server, values.servers);
    const known = names.find((each) => each === name);
    return known === undefined ? written : values[known];
  });
}

/** Whether a text has a name that is replaced. */
export function mentions(text: string, name: (typeof names)[number]): boolean {
  return [...text.matchAll(place)].some(([, found]) => found === name);
}

function addressOf(server: string, servers: ReadonlyMap<string, string>): string {
  const url = servers.get(server);
  if (url !== undefined) return url;
  const known = [...servers.keys()].join(", ");
  throw new McpvalsError(
    "config/unknown-reference",
    `{servers.${server}.url}: the trial has no such server`,
    {
      hint: known === "" ? "It has none at all." : `It has: ${known}.`,
    },
  );
}
