import { assertionSet, assertionsSchema } from "../formats/eval-file/assertions.ts";
import { assertedServers, assertionKinds } from "../formats/model.ts";
import { gradeAssertions } from "./assertions.ts";
import { graderKind } from "./grader.ts";

/** The assertions of task sets, declared as a grader. Apart from these, since every run loads those. */
export const assertions = graderKind({
  type: "assertions",
  description:
    "The assertions of task sets of an Eval about the agent's calls, such as `toolsUsed` and `callOrder`. All kinds that are given must hold.",
  config: assertionsSchema.refine((all) => assertionKinds(assertionSet(all)).length > 0, {
    error: "must have an assertion that says something",
  }),
  example: { toolsUsed: [{ server: "tracker", tool: "get_issue" }], maxToolCalls: 4 },
  servers: (config) => assertedServers(assertionSet(config)),
  grade: (config, trajectory) => gradeAssertions([assertionSet(config)], trajectory),
});
