import { McpvalsError } from "../errors/error.ts";

/** Programs that find everything when they look for nothing. */
const search = /(?:^|[\s;&|(`"'/])(?:[efz]?grep|rg|ag|ack|findstr|select-string)(?=[\s;&|)]|$)/i;

/** Throws McpvalsError `task/unfit-value` for a value from outside that is empty, in or for a program that may look for it. */
export function refuseEmptySearch(program: string, expression: string, value: string): void {
  if (value.trim() !== "" || !search.test(program)) return;
  throw new McpvalsError(
    "task/unfit-value",
    `${expression} gives nothing, and a program that looks for nothing finds everything`,
  );
}
