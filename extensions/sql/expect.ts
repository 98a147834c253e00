import * as z from "zod";
import {
  EnvironmentError,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../src/extension-sdk/index.ts";
import type { Connections } from "./connections.ts";
import { expectationArgs, expectationNames, unmet } from "./expectations.ts";
import { statementArgs, statementRules, withStatement } from "./statement.ts";

const params = z
  .strictObject({ ...statementArgs, ...expectationArgs })
  .meta({ allOf: [...statementRules, { anyOf: expectationNames.map((name) => ({ required: [name] })) }] });

/** Checks what a query gives. */
export const expect = operation({
  description: "Runs one SQL query, which cannot change anything, and compares what it gives.",
  params,
  phases: ["verify"],
  run: (args, context: OperationRun<Connections>) =>
    withStatement(args, context, async ({ database, limits, ...statement }) => {
      if (expectationNames.every((name) => args[name] === undefined)) {
        throw new EnvironmentError(`nothing is expected: give one of ${expectationNames.join(", ")}`);
      }
      const table = await database.query({ ...statement, readOnly: true }, limits);
      const outputs = { rowCount: table.rows.length };
      const problems = unmet(args, table);
      if (problems.length > 0) throw new OperationFailed(problems.join("\n"), { outputs });
      return { message: "the rows are as expected", outputs };
    }),
});
