import { array, assert, constantFrom, property, string, stringMatching } from "fast-check";
import { describe, expect, it } from "vitest";
import { agentPresets, type AgentPreset } from "../formats/model.ts";
import { toolOrigin } from "./tool-origin.ts";

const servers = ["git", "git-hub", "my.server", "fs"];

const written: readonly (readonly [AgentPreset, string, string, string])[] = [
  ["claude-code", "mcp__git__log", "git", "log"],
  ["claude-code", "mcp__git-hub__create_issue", "git-hub", "create_issue"],
  ["claude-code", "mcp__my_server__x", "my.server", "x"],
  ["codex", "mcp__git__log", "git", "log"],
  ["codex", "git.log", "git", "log"],
  ["codex", "mcp__git_hub.list", "git-hub", "list"],
  ["gemini", "mcp_git-hub_list_all", "git-hub", "list_all"],
  ["gemini", "log (git MCP Server)", "git", "log"],
  ["gemini", "git__log", "git", "log"],
  ["copilot", "git-log", "git", "log"],
  ["copilot", "git-hub-log", "git-hub", "log"],
  ["copilot", "my-server-read-it", "my.server", "read-it"],
  ["opencode", "git_log", "git", "log"],
  ["opencode", "git-hub_log", "git-hub", "log"],
];

describe("toolOrigin", () => {
  it.each(written)("%s: %s is of %s", (preset, name, server, tool) => {
    expect(toolOrigin(name, { preset, servers })).toEqual({ source: `mcp:${server}`, tool });
  });

  it.each(written)("finds the server without knowing that it is %s: %s", (_preset, name, server, tool) => {
    expect(toolOrigin(name, { servers })).toEqual({ source: `mcp:${server}`, tool });
  });

  it.each(agentPresets)("takes other names of %s for its own tools", (preset) => {
    for (const name of ["shell", "git", "", "gitlog", "Read"]) {
      expect(toolOrigin(name, { preset, servers })).toEqual({ source: "builtin" });
    }
  });

  it("knows the tool that loads skills, of a program that is known or that says so", () => {
    expect(toolOrigin("Skill", { preset: "claude-code", servers })).toEqual({ source: "skill" });
    expect(toolOrigin("activate_skill", { preset: "gemini", servers })).toEqual({ source: "skill" });
    expect(toolOrigin("skill", { preset: "codex", servers })).toEqual({ source: "builtin" });
    expect(toolOrigin("load", { servers, skillTool: "load" })).toEqual({ source: "skill" });
    expect(toolOrigin("skill", { preset: "copilot", servers, skillTool: "load" })).toEqual({
      source: "builtin",
    });
  });

  it("does not know a tool of a server that is not ours, nor one of a program that is not known", () => {
    expect(toolOrigin("mcp__other__x", { preset: "claude-code", servers })).toEqual({ source: "unknown" });
    expect(toolOrigin("mcp_other_x", { preset: "gemini", servers })).toEqual({ source: "unknown" });
    expect(toolOrigin("shell", { servers })).toEqual({ source: "unknown" });
  });

  it("takes the longest name, and the one that is written exactly so", () => {
    const both = ["a", "a_b", "a-b"];
    expect(toolOrigin("a-b_c", { preset: "opencode", servers: both })).toEqual({
      source: "mcp:a-b",
      tool: "c",
    });
    expect(toolOrigin("a_b_c", { preset: "opencode", servers: both })).toEqual({
      source: "mcp:a_b",
      tool: "c",
    });
    expect(toolOrigin("a_c", { preset: "opencode", servers: both })).toEqual({ source: "mcp:a", tool: "c" });
  });

  const serverName = stringMatching(/^[A-Za-z0-9_.-]{1,12}$/);
  const toolName = stringMatching(/^[A-Za-z0-9_./-]{1,12}$/);
  const spell: Readonly<Record<AgentPreset, (server: string, tool: string) => string>> = {
    "claude-code": (server, tool) => `mcp__${server.replaceAll(".", "_")}__${tool}`,
    codex: (server, tool) => `mcp__${server.replaceAll(/[.-]/g, "_")}__${tool}`,
    gemini: (server, tool) => `${tool} (${server} MCP Server)`,
    copilot: (server, tool) => `${server.replaceAll(".", "-")}-${tool}`,
    opencode: (server, tool) => `${server.replaceAll(".", "_")}_${tool}`,
  };

  it("finds the only server whatever its name and whatever the tool's", () => {
    assert(
      property(constantFrom(...agentPresets), serverName, toolName, (preset, server, tool) => {
        const name = spell[preset](server, tool);
        expect(toolOrigin(name, { preset, servers: [server] })).toEqual({ source: `mcp:${server}`, tool });
      }),
    );
  });

  it("gives a server that it was given, with a name no shorter than the one that was meant", () => {
    assert(
      property(
        constantFrom(...agentPresets),
        array(serverName, { minLength: 1 }),
        toolName,
        (preset, all, tool) => {
          const [meant = ""] = all;
          const { source } = toolOrigin(spell[preset](meant, tool), { preset, servers: all });
          const found = source.replace(/^mcp:/, "");
          expect(all).toContain(found);
          expect(found.length).toBeGreaterThanOrEqual(meant.length);
        },
      ),
    );
  });

  it("takes the way of naming that has more marks of its own, and wants all of them", () => {
    const servers = ["mcp", "a"];
    expect(toolOrigin("mcp__a__b", { servers })).toEqual({ source: "mcp:a", tool: "b" });
    expect(toolOrigin("mcp__a__b", { servers, preset: "gemini" })).toEqual({ source: "mcp:a", tool: "b" });
    expect(toolOrigin("b (a MCP Server)", { servers, preset: "gemini" }).source).toBe("mcp:a");
    expect(toolOrigin("b (a web Server)", { servers, preset: "gemini" }).source).toBe("builtin");
  });

  it("takes any text for a name", () => {
    assert(
      property(string({ unit: "binary" }), array(string({ unit: "binary" })), (name, all) => {
        const { source, tool } = toolOrigin(name, { servers: all });
        expect(source === "unknown" || all.includes(source.slice("mcp:".length))).toBe(true);
        expect(tool === undefined || name.includes(tool)).toBe(true);
      }),
    );
  });
});
