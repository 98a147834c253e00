import { expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";
import { structuredResult } from "../../test/support/trial-events.ts";
import { isJsonObject, type Json } from "../base/json.ts";
import { jsonSchema } from "./json-schema.ts";

const schema = { type: "object", required: ["total"] };
/** Stands for the validator: the value must have what the schema requires. */
const validateSchema = async (wanted: Json, value: Json) => {
  const [key = ""] = isJsonObject(wanted) && Array.isArray(wanted["required"]) ? wanted["required"] : [];
  if (isJsonObject(value) && value[String(key)] !== undefined) return { status: "valid" } as const;
  const error = { instancePath: "", keyword: "required", params: {}, message: `must have ${String(key)}` };
  return { status: "invalid", errors: [error] } as const;
};
const grade = async (config: Parameters<typeof gradeBy>[1], trial: AgentTrial) =>
  gradeBy("json_schema", config, trial, { dir: "/evals", validateSchema });
const saying = (...texts: readonly string[]) =>
  new AgentTrial((trial) => {
    for (const text of texts) trial.say(text);
  });

it.each([
  ['{"total": 4}', 1, "the answer: valid"],
  [' \n{"total": 4}\n', 1, "the answer: valid"],
  ['```json\n{"total": 4}\n```\n', 1, "the answer: valid"],
  ['~~~\n{"total": 4}\n~~~', 1, "the answer: valid"],
  ['{"sum": 4}', 0, "the answer: not valid: it must have total"],
  ['Here it is:\n```json\n{"total": 4}\n```', 0, /^the answer: not JSON: /],
  ['```json\n{"total": 4}', 0, /^the answer: not JSON: /],
  ["four", 0, /^the answer: not JSON: /],
  ['{"total": "x", "total": 4}', 0, /^the answer: not JSON: duplicate key "total"$/],
] as const)("the last message %j: %d", async (text, score, reason) => {
  const finding = await grade({ schema }, saying('{"total": 1} was wrong', text));
  expect(finding).toMatchObject({
    verdict: score === 1 ? "pass" : "fail",
    score,
    evidence: [expect.any(Number)],
  });
  expect(finding.reason).toMatch(reason);
});

const calling = new AgentTrial((trial) => {
  trial.use("get", { total: 1 }, '{"total": 2}');
  trial.use("get", { all: true }, "two");
  trial.fail("get", { total: 3 }, "no such thing");
  trial.call("list", {}, structuredResult({ total: 5 }, "five"));
});

it.each([
  [{ of: "arguments", tool: "get" }, 2 / 3, "the arguments of get: not valid: it must have total"],
  [{ of: "arguments", tool: "k8s.list" }, 0, "the arguments of k8s.list: not valid: it must have total"],
  [{ of: "result", tool: "list" }, 1, "the result of list: valid"],
  [
    { of: "result", tool: "get" },
    1 / 3,
    /^the result of get: not JSON: .*; the result of get: missing, since the call failed: no such thing$/,
  ],
  [{ of: "result", tool: "delete" }, 0, "delete: not called"],
  [{ of: "arguments", tool: "delte" }, 0, 'delte: not called; did you mean "delete"?'],
  [{}, 0, "the answer: missing"],
] as const)("%j: %d", async (config, score, reason) => {
  const finding = await grade({ schema, ...config }, calling);
  expect(finding).toMatchObject({ verdict: score === 1 ? "pass" : "fail", score });
  expect(finding.reason).toMatch(reason);
});

it("fails an agent that did nothing, and gives no verdict by a schema that cannot be used", async () => {
  expect(await grade({ schema }, new AgentTrial())).toMatchObject({
    verdict: "fail",
    score: 0,
    reason: "the agent said nothing and called nothing: the answer: missing",
  });
  const unusable = async () => ({ status: "unusable", reason: "it never ends" }) as const;
  await expect(
    gradeBy("json_schema", { schema }, saying("{}"), { validateSchema: unusable }),
  ).rejects.toThrow("the schema cannot be used: it never ends");
});

it("reads the schema from a file, which is checked when the grader is read", async () => {
  const readFile = async (dir: string, file: string) => ({
    size: 1,
    text: JSON.stringify(schema),
    dir,
    file,
  });
  const config = { schema_file: "total.json" };
  expect(
    await gradeBy("json_schema", config, saying('{"total": 4}'), { validateSchema, readFile }),
  ).toMatchObject({ verdict: "pass" });
  const [named] = jsonSchema.files?.(config) ?? [];
  expect(named).toMatchObject({ path: ["schema_file"], file: "total.json" });
  expect(
    ["{", "4", "{}", '{"typ": "object"}', JSON.stringify(schema)].map((text) => named?.problemIn?.(text)),
  ).toEqual([
    expect.stringContaining("is not JSON: "),
    "is not a schema: it must be an object",
    "is not a schema: it accepts every value, so it could not fail",
    'is not a schema: typ is wrong: unknown keyword "typ"',
    undefined,
  ]);
  expect(named?.problemIn?.("root:x:0:0:/root")).not.toContain("root");
});

it("refuses settings without one schema, without a tool, and with a schema that could not fail", () => {
  const either = "must have either schema or schema_file";
  expect(settingIssues("json_schema", {})).toEqual([either]);
  expect(settingIssues("json_schema", { schema, schema_file: "a.json" })).toEqual([either]);
  const tool = "must have tool if of is arguments or result, and only then";
  expect(settingIssues("json_schema", { schema, of: "result" })).toEqual([tool]);
  expect(settingIssues("json_schema", { schema, tool: "get" })).toEqual([tool]);
  expect(settingIssues("json_schema", { schema: {} })).toEqual(["accepts every value, so it could not fail"]);
});
