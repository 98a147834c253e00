import type { Trajectory } from "../../trace/trajectory.ts";
import { isMcp, nameOfUse, type ToolUse, toolUses } from "../tool-uses.ts";

/** Where a prompt should lead. */
export interface RoutingConfig {
  readonly expect: "none" | { readonly server?: string | undefined; readonly tool?: string | undefined };
  readonly calls?: "first" | "any" | undefined;
}

/** Where a prompt led. */
export interface Route {
  readonly isCorrect: boolean;
  /** The call that decides; absent: no tool of a server was called. */
  readonly call?: ToolUse;
  /** The first call was wrong, and a later one is what was expected. */
  readonly later?: ToolUse;
  readonly tools?: Routed;
  readonly servers?: Routed;
}

/** An expected and a called tool, or server; `none`: none. */
export interface Routed {
  readonly expected: string;
  readonly called: string;
}

const none = "none";

/** Follows a prompt to the tool that the agent called: the first one, or if any call will do, the expected one if it was called. */
export function routeOf({ expect, calls = "first" }: RoutingConfig, trajectory: Trajectory): Route {
  const rejected = new Set(trajectory.calls.flatMap(({ server, seq }) => (server === null ? [seq] : [])));
  const made = toolUses(trajectory).filter((use) => isMcp(use) || rejected.has(use.seq));
  const [first] = made;
  const fits = (use: ToolUse): boolean => expect !== none && reaches(use, expect);
  const reached = made.find(fits);
  const call = calls === "any" ? (reached ?? first) : first;
  const isCorrect = expect === none ? call === undefined : call !== undefined && call === reached;
  const route = {
    isCorrect,
    ...(call === undefined ? {} : { call }),
    ...(isCorrect || reached === undefined ? {} : { later: reached }),
  };
  const calledTool = call === undefined ? none : nameOfUse(call);
  const calledServer = call === undefined ? none : serverOf(call);
  if (expect === none)
    return {
      ...route,
      tools: { expected: none, called: calledTool },
      servers: { expected: none, called: calledServer },
    };
  const { tool } = expect;
  const server = expect.server ?? onlyServerOf(tool, trajectory);
  const name = server === undefined ? tool : `${server}.${tool}`;
  const expectedTool = tool === undefined ? undefined : isCorrect ? calledTool : name;
  const expectedServer = isCorrect ? calledServer : server;
  return {
    ...route,
    ...(expectedTool === undefined ? {} : { tools: { expected: expectedTool, called: calledTool } }),
    ...(expectedServer === undefined ? {} : { servers: { expected: expectedServer, called: calledServer } }),
  };
}

function reaches(use: ToolUse, { server, tool }: Exclude<RoutingConfig["expect"], "none">): boolean {
  return (server === undefined || serverOf(use) === server) && (tool === undefined || use.tool === tool);
}

/** A tool that no server offers belongs to none of them. */
function serverOf({ source }: ToolUse): string {
  return isMcp({ source }) ? source.slice("mcp:".length) : "unknown";
}

function onlyServerOf(tool: string | undefined, { tools }: Trajectory): string | undefined {
  const [server, ...others] = new Set(tools.filter(({ name }) => name === tool).map((each) => each.server));
  return others.length === 0 ? server : undefined;
}
