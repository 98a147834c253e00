import { expect, it } from "vitest";
import type { Json } from "../base/json.ts";
import { schemaProblems } from "./weak-expectations.ts";

it.each<[Json, readonly string[]]>([
  [{}, ["schema accepts every value, so it could not fail"]],
  [true, ["schema accepts every value, so it could not fail"]],
  [false, []],
  [{ type: "object", properties: { a: { items: { type: "number" } } }, "x-note": 1 }, []],
  [{ requird: ["a"] }, ['unknown keyword "requird" in the schema schema']],
  [{ properties: { a: { $defs: { b: { minimun: 1 } } } } }, [expect.stringContaining('"minimun"') as string]],
  [{ format: "e-mail" }, [expect.stringContaining('no format is named "e-mail"') as string]],
])("what is wrong with the schema %j", (schema, messages) => {
  expect(schemaProblems(schema, ["schema"]).map(({ message }) => message)).toEqual(messages);
});
