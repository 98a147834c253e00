import { expect, it } from "vitest";
import { LenientReader } from "../lenient-reader.ts";
import { readGraders } from "./read-graders.ts";

it.each<[object, object]>([
  [{ max_tool_calls: 3, max_mcp_calls: 2 }, { maxToolCalls: 2 }],
  [{ max_tool_calls: 3 }, { maxToolCalls: 3 }],
  [
    { required_tools: ["a"], required_mcp_servers: ["s"], forbidden_mcp_servers: ["t"] },
    { toolsUsed: [{ name: "a" }, { server: "s" }], toolsNotUsed: [{ server: "t" }] },
  ],
])("a grader of behavior with %j", (config, set) => {
  const reader = new LenientReader(() => undefined, { strict: true });
  const { assertions } = readGraders([{ type: "behavior", config: { ...config } }], new Set(), reader);
  expect(assertions).toEqual([{ set: { ...set, grader: "behavior" }, path: ["graders", 0] }]);
  expect(reader.failed).toBe(false);
});
