import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { configJsonSchema, configReference } from "../../../scripts/schemas/config-reference.ts";
import { configSchema } from "./config-schema.ts";

const validate = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false }).compile(
  configJsonSchema(),
);

const stdio = { transport: "stdio", command: "node" };
const suites = [
  { name: "s", tests: [{ name: "t", expectedResult: { a: [null] }, timeout: "2s", maxLatency: 5 }] },
];
const flow = { name: "f", steps: [{ user: "u", expectedState: "s" }] };

it.each([
  { $schema: "./x.json", server: stdio, toolHealthSuites: suites },
  { servers: { a: stdio, b: { transport: "sse", url: "${URL}" } }, workflows: [flow] },
  {
    server: stdio,
    workflows: [flow],
    agent: { type: "scripted", plan: { f: [{ call: "t", args: {} }, { say: "" }] } },
  },
  {
    server: stdio,
    workflows: [flow],
    agent: { model: "m", api: "chat" },
    judge: { model: "m" },
    limits: { trial: "5m" },
  },
  {
    servers: { b: { transport: "shttp", url: "http://x", tools: ["*"], lifetime: "per_run" } },
    variants: { v: { servers: { inherit: false, a: null, b: { headers: { A: null }, auth: null } } } },
    workflows: [flow],
  },
])("accepts what the parser accepts: %j", (config) => {
  expect(validate(config), JSON.stringify(validate.errors)).toBe(true);
});

it.each([
  {},
  { server: { ...stdio, arg: [] } },
  { server: stdio, agent: { type: "scripted" } },
  { mcp_servers: { a: { command: "x" } }, workflows: [flow] },
])("refuses what the parser refuses: %j", (config) => {
  expect(validate(config)).toBe(false);
});

describe("what it says", () => {
  const schema = configJsonSchema();

  it("describes every field", () => {
    const objects = [schema, ...Object.values(schema["$defs"] as object)] as { properties?: object }[];
    const fields = objects.flatMap((each) => Object.entries(each.properties ?? {}));
    expect(fields.length).toBeGreaterThan(80);
    const silent = fields.filter(([, field]) => !("description" in (field as object))).map(([name]) => name);
    expect(silent).toEqual([]);
  });

  it("has the defaults that the parser fills in", () => {
    const parsed = configSchema.parse({ server: stdio }) as Record<string, unknown>;
    const defaults = Object.entries(schema["properties"] as Record<string, { default?: unknown }>).filter(
      ([, field]) => field.default !== undefined,
    );
    for (const [name, field] of defaults) {
      const again = configSchema.parse({ server: stdio, [name]: field.default }) as Record<string, unknown>;
      expect(again[name]).toEqual(parsed[name]);
    }
  });
});

describe("the reference page", () => {
  const page = configReference();

  it("has a table row for every field", () => {
    // The page of graders has their settings.
    const schema = configJsonSchema({ defaultTexts: true });
    const objects = [schema, ...Object.values(schema["$defs"] as object)] as { properties?: object }[];
    const fields = objects.flatMap((each) => Object.keys(each.properties ?? {}));
    const rows = page.split("\n").filter((line) => line.startsWith("| `"));
    expect(rows.map((row) => /^\| `([^`]+)`/.exec(row)?.[1])).toEqual(fields);
  });

  it("leaves no type unnamed and no link without its heading", () => {
    expect(page.replaceAll("`undefined`", "")).not.toMatch(/undefined|\[object|\(#\)/);
    const headings = [...page.matchAll(/^## (.+)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\w\s-]/g, "")
        .replaceAll(/\s/g, "-"),
    );
    const links = [...page.matchAll(/\(#([^)]+)\)/g)].map(([, target]) => target);
    expect(links.filter((target) => !headings.includes(target ?? ""))).toEqual([]);
  });
});
