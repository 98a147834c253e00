import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { wazaEvalJsonSchema, wazaTaskJsonSchema } from "../../../../scripts/schemas/eval-json-schemas.ts";

const ajv = new Ajv2020({ strict: false });
const isEval = ajv.compile(wazaEvalJsonSchema());
const isTask = ajv.compile(wazaTaskJsonSchema());

const config = { trials_per_task: 2, executor: "copilot-sdk" };
const task = { id: "a", inputs: { prompt: "x" } };

describe("the JSON Schemas of waza files", () => {
  it.each<[string, unknown]>([
    ["an eval", { config, tasks: ["*.yaml"] }],
    [
      "servers in every spelling",
      {
        config: {
          mcp_servers: { a: { type: "stdio", command: "x", workingDir: "." }, b: { url: "${URL}" } },
        },
      },
    ],
    ["variants", { config, variants: { none: { mcp_servers: { a: null, inherit: false } } } }],
  ])("accept %s", (_, document) => {
    expect([isEval(document), isEval.errors]).toEqual([true, null]);
  });

  it.each<[string, unknown]>([
    ["an unknown key", { hoks: {} }],
    ["a server with a misspelt key", { config: { mcp_servers: { a: { comand: "x" } } } }],
    ["a server with a name that cannot be", { config: { mcp_servers: { "a b": { command: "x" } } } }],
  ])("refuse %s", (_, document) => {
    expect(isEval(document)).toBe(false);
  });

  it("know tasks", () => {
    expect(
      isTask({ ...task, mcp_servers: { a: { tools: ["x"] } }, expected: { tool_calls: { min_calls: 1 } } }),
    ).toBe(true);
    expect(isTask({ id: "a" })).toBe(false);
    expect(isTask({ ...task, expected: { outcomes: [1] } })).toBe(false);
  });
});
