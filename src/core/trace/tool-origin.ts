import { agentPresetFacts } from "../formats/agent-presets.ts";
import type { AgentPreset } from "../formats/model.ts";

export interface ToolOriginOptions {
  /** Who names the tool; absent: nobody known, so all ways to name tools are tried. */
  readonly preset?: AgentPreset;
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
 * Tells from an agent's name of a tool which server it is of. Agents replace characters that they do not allow in names,
 * so letters and digits alone are compared; of several servers that fit, the one with the longest name is meant.
 */
export function toolOrigin(name: string, { preset, servers, skillTool }: ToolOriginOptions): ToolOrigin {
  const forms = preset === undefined ? anyForms : formsOf[preset];
  const fits = forms.flatMap((form) => servers.flatMap((server) => fit(name, server, form) ?? []));
  const [best] = fits.toSorted(byFit);
  if (best !== undefined) return { source: `mcp:${best.server}`, tool: best.tool };
  const loadsSkills = skillTool ?? (preset === undefined ? undefined : agentPresetFacts[preset].skills.tool);
  if (name === loadsSkills) return { source: "skill" };
  const isForeign = forms.some(({ before }) => before.startsWith("mcp_") && name.startsWith(before));
  return { source: preset === undefined || isForeign ? "unknown" : "builtin" };
}

/** A way to write a tool's name: `before`, server, `between`, tool, `after`; or, `toolFirst`, tool and then server. */
interface NameForm {
  readonly before: string;
  readonly between: string;
  readonly after?: string;
  readonly toolFirst?: true;
}

const doubled: NameForm = { before: "mcp__", between: "__" };
const titled: NameForm = { before: "", between: " (", after: " MCP Server)", toolFirst: true };
const plain = (between: string): NameForm => ({ before: "", between });

/** The ways in which each program names the tools of servers. */
const formsOf: Readonly<Record<AgentPreset, readonly NameForm[]>> = {
  "claude-code": [doubled],
  codex: [
    doubled,
    { before: "mcp__", between: "." },
    { before: "mcp__", between: "/" },
    { before: "mcp.", between: "." },
    plain("."),
    plain("/"),
  ],
  gemini: [doubled, { before: "mcp_", between: "_" }, titled, plain("__")],
  copilot: [plain("-"), plain("/")],
  opencode: [plain("_")],
};

const anyForms: readonly NameForm[] = Object.values(formsOf).flat();

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
  { before, between, after = "", toolFirst }: NameForm,
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
