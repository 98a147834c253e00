import type * as z from "zod";

/** The value as a schema has it. Throws an Error that says what it is not, and the first place that is wrong. */
export function parseAs<S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const [first] = error.issues;
  throw new Error(`it is ${what}: ${first?.path.join(".") ?? ""}: ${first?.message ?? ""}`);
}
