import * as z from "zod";
import type { Json } from "../../src/extension-sdk/index.ts";

/** Any JSON value as an argument; what reaches an extension is JSON already. */
export const jsonArgument = z.unknown().transform((value) => value as Json);
