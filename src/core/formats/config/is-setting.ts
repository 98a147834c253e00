import * as z from "zod";
import type { KeyPath } from "../key-path.ts";
import { configSchema } from "./config-schema.ts";

/**
 * Whether a path of a config leads to a key that the format itself names, outside of what is tested: written as undefined
 * by a program, it counts as absent. Names of the author's own (of servers, variables, headers), arguments and everything in
 * workflows and tests must be there: an expectation that turned out as undefined would be none.
 */
export function isSettingOfConfig(path: KeyPath): boolean {
  const [first] = path;
  return first !== "workflows" && first !== "toolHealthSuites" && isNamedBy(configSchema, path);
}

function isNamedBy(schema: z.core.$ZodType, path: KeyPath): boolean {
  const [key, ...rest] = path;
  if (key === undefined) return true;
  if (schema instanceof z.ZodObject) {
    const member = Object.entries(schema.shape).find(([name]) => name === key)?.[1];
    return member !== undefined && isNamedBy(member, rest);
  }
  // A key of a table is a name of the author's own, so that it cannot end the path.
  if (schema instanceof z.ZodRecord) return rest.length > 0 && isNamedBy(schema.valueType, rest);
  if (schema instanceof z.ZodArray) return rest.length > 0 && isNamedBy(schema.element, rest);
  if (schema instanceof z.ZodUnion) return schema.options.some((each) => isNamedBy(each, path));
  if (schema instanceof z.ZodPipe) return isNamedBy(schema.in, path);
  if (schema instanceof z.ZodLazy) return isNamedBy(schema.unwrap(), path);
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodNullable
  )
    return isNamedBy(schema.unwrap(), path);
  return false;
}
