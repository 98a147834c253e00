import { McpvalsError } from "../../core/errors/error.ts";
import { templateNames, templatePlace } from "../../core/formats/agent-templates.ts";
import { longestExpansion, TextRoom } from "../../core/templates/text-room.ts";

/** What stands for the names in a program's command line; see `CommandAgentSpec`. */
export interface TemplateValues {
  readonly prompt: string;
  /** The prompt as JSON, in double quotes. */
  readonly promptJson: string;
  readonly workspace: string;
  readonly cwd: string;
  readonly mcpConfig: string;
  readonly model: string;
  readonly session: string;
  /** Addresses by server; absent for a command line, which every user of the machine can read. */
  readonly servers?: ReadonlyMap<string, string>;
}

/**
 * Replaces the names in a text. What replaces them is taken as it is; a brace before anything else is a brace, and `{{` is
 * one too. Throws McpvalsError `config/unknown-reference` for a server that is not there, `config/public-secret` for any where
 * there are no addresses, and `config/invalid-value` for a text that becomes too long.
 */
export function fillTemplate(text: string, values: TemplateValues): string {
  const room = new TextRoom(tooLong);
  return text.replaceAll(templatePlace, (written: string, name?: string, server?: string) => {
    if (written === "{{") return "{";
    if (server !== undefined) return addressOf(server, values.servers);
    const known = templateNames.find((each) => each === name);
    return known === undefined ? written : room.take(values[known]);
  });
}

function tooLong(): McpvalsError {
  return new McpvalsError(
    "config/invalid-value",
    `an argument or variable of the agent's program becomes longer than ${longestExpansion} characters`,
    { hint: "The prompt is in it too often." },
  );
}

function addressOf(server: string, servers: TemplateValues["servers"]): string {
  if (servers === undefined)
    throw new McpvalsError(
      "config/public-secret",
      `{servers.${server}.url} in a command line would show a secret address to every user of this machine`,
      { hint: "Write it into a variable of the agent's env." },
    );
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
