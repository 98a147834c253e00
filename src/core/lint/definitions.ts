import type { RuleTable } from "./rule.ts";

/** Rules about names, descriptions and annotations. */
export const definitionRules = {
  "definition/duplicate-name": {
    severity: "error",
    title: "Two tools have the same name",
    why: "A call names its tool, so that only one of the two can be called, and which one depends on the server.",
    fix: "Give each tool a name of its own.",
    bad: `tools: [{ name: "search", … }, { name: "search", … }]`,
    good: `tools: [{ name: "search_files", … }, { name: "search_web", … }]`,
    source: "MCP 2025-11-25, tools: a name is the unique identifier of a tool",
    *find({ surface }) {
      for (const [name, tools] of Map.groupBy(surface.tools, (tool) => tool.name)) {
        if (tools.length < 2 || name === "") continue;
        const evidence = [...new Set(tools.map((tool) => tool.evidence))];
        yield { place: { tool: name }, message: `${tools.length} tools are named "${name}"`, evidence };
      }
    },
  },
  "definition/no-description": {
    severity: "warning",
    title: "A tool has no description",
    why: "A model chooses tools by their descriptions.",
    fix: "Say what the tool does, when to use it, and what it gives.",
    bad: `{ name: "sync", inputSchema: { type: "object" } }`,
    good: `{ name: "sync", description: "Uploads changed notes. Use it after edits.", inputSchema: { type: "object" } }`,
    source: "MCP 2025-11-25, tools: description",
    *find({ surface }) {
      for (const { name, definition, evidence } of surface.tools) {
        const { description } = definition;
        if (typeof description === "string" && description.trim() !== "") continue;
        yield { place: { tool: name }, message: "the description is missing or empty", evidence: [evidence] };
      }
    },
  },
} as const satisfies RuleTable;
