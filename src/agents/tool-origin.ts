import type { ToolNameForm } from "./programs/preset.ts";
import { presetNamed, presets } from "./programs/presets.ts";

export interface ToolOriginOptions {
  /** Who names the tool; absent: unknown, so all ways to name tools are tried. */
  readonly preset?: string;
  /** Names of the servers that the agent can reach. */
  readonly servers: readonly string[];
  /** The agent's tool that loads a skill; absent: the preset's. */
  readonly skillTool?: string | undefined;
}

export interface ToolOrigin {
  /** `mcp:SERVER`, `skill`, `builtin`, or `unknown`, where the name does not tell. */
  readonly source: string;
  /** What the name has after the server's: the server's own name, but for characters that the agent replaced. */
  readonly tool?: string;
}

/**
 * Finds the server of a tool by the agent's name of it. Agents replace characters that they do not allow in names,
 * so letters and digits alone are compared; of several servers that fit, the one with the longest name is meant.
 */
export function toolOrigin(name: string, { preset, servers, skillTool }: ToolOriginOptions): ToolOrigin {
  const forms = presetNamed(preset)?.toolNames ?? anyForms;
  const fits = forms.flatMap((form) => servers.flatMap((server) => fit(name, server, form) ?? []));
  const [best] = fits.toSorted(byFit);
  if (best !== undefined) return { source: `mcp:${best.server}`, tool: best.tool };
  const loadsSkills = skillTool ?? presetNamed(preset)?.skills.tool;
  if (name === loadsSkills) return { source: "skill" };
  const isForeign = forms.some(({ before }) => before.startsWith("mcp_") && name.startsWith(before));
  return { source: preset === undefined || isForeign ? "unknown" : "builtin" };
}

const anyForms: readonly ToolNameForm[] = Object.values(presets).flatMap(({ toolNames }) => toolNames);

interface Fit {
  readonly server: string;
  readonly tool: string;
  /** Characters that stand there for no other reason than that it is a server's tool. */
  readonly marks: number;
  /** Every character of the server's name is as written. */
  readonly exact: boolean;
}

function fit(
  name: string,
  server: string,
  { before, between, after = "", toolFirst }: ToolNameForm,
): Fit | undefined {
  const rest = name.length - before.length - server.length - between.length - after.length;
  if (rest <= 0 || !name.startsWith(before) || !name.endsWith(after)) return undefined;
  const at = before.length + (toolFirst === true ? rest + between.length : 0);
  const written = name.slice(at, at + server.length);
  if (loose(written) !== loose(server)) return undefined;
  const betweenAt = before.length + (toolFirst === true ? rest : server.length);
  if (!name.startsWith(between, betweenAt)) return undefined;
  const toolAt = toolFirst === true ? before.length : betweenAt + between.length;
  return {
    server,
    tool: name.slice(toolAt, toolAt + rest),
    marks: before.length + after.length,
    exact: written === server,
  };
}

function byFit(a: Fit, b: Fit): number {
  return b.marks - a.marks || b.server.length - a.server.length || Number(b.exact) - Number(a.exact);
}

/** Each character that some agent replaces becomes `_`, so that the length stays. */
function loose(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9]/g, "_");
}
