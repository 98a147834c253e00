import * as z from "zod";
import { operation, type OperationRun } from "../../src/extension-sdk/index.ts";
import type { Connections } from "./connections.ts";
import { rowCountText } from "./database.ts";
import { statementArgs, statementRules, withStatement } from "./statement.ts";

const params = z
  .strictObject({
    ...statementArgs,
    transaction: z.boolean().default(true).describe("All of it or nothing."),
  })
  .meta({ allOf: statementRules });

/** Changes a database. */
export const execute = operation({
  description: "Runs SQL statements, all of them or none.",
  params,
  phases: ["setup", "cleanup"],
  run: (args, context: OperationRun<Connections>) =>
    withStatement(args, context, async ({ database, limits, ...statement }) => {
      const rowsAffected = await database.execute({ ...statement, transaction: args.transaction }, limits);
      return { message: `${rowCountText(rowsAffected)} changed`, outputs: { rowsAffected } };
    }),
});
