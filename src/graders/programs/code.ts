import * as z from "zod";
import { McpvalsError } from "../../base/error.ts";
import { closedObject, filledText } from "../../model/fields.ts";
import type { Json, JsonObject } from "../../base/json.ts";
import { serverIn } from "../../trace/agent-acts.ts";
import type { Trajectory } from "../../trace/trajectory.ts";
import { checksGrade, declaredKind, type KindContext, skip } from "../grader.ts";
import { nothingToJudge } from "../workspace.ts";
import { type CodeResult, runCode, runFields, defaultTimeoutMs } from "./answer.ts";
import { recordOf, type TrajectoryRecord } from "./trajectory-record.ts";

const config = z.lazy(() =>
  closedObject({
    assertions: z
      .array(filledText)
      .min(1)
      .describe(
        "Expressions that must all be `True` (`true` in JavaScript); no other value holds. They have `output` (the agent's last message), `outcome` (outcomes of the verify steps by their ids), `transcript` (list of {type, content, …}: `user.message`, `assistant.message`, `tool.execution_complete`), `tool_calls` (list of {name, server, arguments, result, success, error}), `errors` (why calls failed), `duration_ms`; in Python also `re` and `json`.",
      ),
    language: z
      .enum(["python", "javascript"])
      .default("python")
      .describe("What they are written in. `python` needs Python 3 as `python3` on PATH."),
    ...runFields,
  }),
);

/** Do expressions of the user's own hold? Score = expressions that are true / all. */
export const code = declaredKind({
  type: "code",
  description:
    "Expressions in Python or JavaScript about the trial that must all be true, each for itself. One that fails, as when it looks at a call that was not made, does not hold. One that is wrong (its syntax, a name that nothing has) is an error of this grader.",
  config,
  example: { assertions: ['len(tool_calls) == 1 and all(c["success"] for c in tool_calls)'] },
  // What is wrong of itself is so of an empty trial, too.
  prepare: (wanted, context) => ({ assertions: evaluate(wanted, emptyTrial, context) }),
  async grade(wanted, trajectory, context) {
    const nothing = nothingToJudge(trajectory);
    if (nothing !== undefined) return skip(nothing);
    const { assertions } = wanted;
    const record = recordOf(trajectory);
    const results = await evaluate(wanted, variablesOf(record, trajectory), context);
    if (!Array.isArray(results) || results.length !== assertions.length)
      throw new McpvalsError("grader/broken", "not every assertion was evaluated");
    const evidence = [...record.messages, ...record.calls].map(({ seq }) => seq);
    // The program that evaluates them is part of mcpvals.
    const checks = (results as unknown as readonly CodeResult[]).map(({ holds, error }, index) => {
      const why = error === undefined ? "" : ` (${error})`;
      const reason = `${assertions[index] ?? ""} is ${holds ? "true" : "not true"}${why}`;
      return { passed: holds, reason, evidence };
    });
    return checksGrade(checks, trajectory);
  },
});

function evaluate(
  { assertions, language, inheritEnv, timeout: timeoutMs = defaultTimeoutMs }: z.output<typeof config>,
  variables: JsonObject,
  { dir, runProgram }: Pick<KindContext, "dir" | "runProgram">,
): Promise<Json> {
  const interpreter = language === "python" ? { command: "python3", args: ["-I", "-c", python] } : {};
  const context = { dir, runProgram, inheritEnv, timeoutMs, ...interpreter };
  return runCode("an assertion", { kind: "code", assertions, variables }, context);
}

const emptyTrial: JsonObject = {
  output: "",
  outcome: {},
  transcript: [],
  tool_calls: [],
  errors: [],
  duration_ms: 0,
};

function variablesOf(record: TrajectoryRecord, trajectory: Trajectory): JsonObject {
  const calls = record.calls.map(({ seq, tool: name, source, args, result = null, error = null }) => ({
    seq,
    call: {
      name,
      server: serverIn({ source }) ?? null,
      arguments: args,
      result,
      success: error === null,
      error,
    },
  }));
  const said: readonly { readonly seq: number; readonly event: JsonObject }[] = [
    ...trajectory.turns.map(({ seq, user, by }) => ({
      seq,
      event: { type: "user.message", content: user, ...(by && { by }) },
    })),
    ...record.messages.map(({ seq, text }) => ({ seq, event: { type: "assistant.message", content: text } })),
    ...calls.map(({ seq, call: { name, arguments: args, result, success } }) => ({
      seq,
      event: {
        type: "tool.execution_complete",
        tool_name: name,
        arguments: args,
        tool_result: result,
        success,
      },
    })),
  ];
  return {
    output: record.output,
    outcome: Object.fromEntries(record.verify.map(({ step, outcome }) => [step, outcome])),
    transcript: said.toSorted((a, b) => a.seq - b.seq).map(({ event }): Json => event),
    tool_calls: calls.map(({ call }) => call),
    errors: record.calls.flatMap(({ error }) => error ?? []),
    duration_ms: record.durationMs,
  };
}

/** Evaluates assertions in Python, as `runAssertions` of the program for JavaScript does. The variables are global, so that comprehensions see them. */
const python = `
import json, re, sys
answer, sys.stdout = sys.stdout, sys.stderr
work = json.loads(sys.stdin.buffer.read())
def evaluate():
    results = []
    for text in work["assertions"]:
        try:
            value = eval(compile(text.strip(), "assertion", "eval"), {**work["variables"], "re": re, "json": json})
            if value is True or not value: results.append({"holds": value is True})
            else: results.append({"holds": False, "error": "it is of type %s; only True holds, so compare it" % type(value).__name__})
        except (SyntaxError, NameError) as error:
            return {"problem": "is wrong: %s: %s: %s" % (text, type(error).__name__, error)}
        except Exception as error:
            results.append({"holds": False, "error": "%s: %s" % (type(error).__name__, error)})
    return {"answer": results}
print("\\n" + json.dumps(evaluate()), file=answer)
`;
