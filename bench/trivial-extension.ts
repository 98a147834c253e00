import * as z from "zod";
import { defineExtension, operation } from "../src/extensions/sdk/index.ts";

const add = operation({
  description: "Adds two numbers.",
  params: z.object({ a: z.number(), b: z.number().default(1) }),
  run: ({ a, b }) => ({ message: "added", outputs: { sum: a + b } }),
});

await defineExtension({ name: "trivial", version: "1.0.0", operations: { add } }).serve();
