import { expect, it } from "vitest";
import type { AgentIdentity } from "../../model/agent.ts";
import { agentDifferences, identitiesOf } from "./identities.ts";

const codex: AgentIdentity = {
  name: "codex",
  type: "acp",
  preset: "codex",
  permissions: "allow",
  home: "trial",
};
const ran = (programs: readonly string[] | null, models: readonly string[] | null) => ({
  agent: "codex",
  ran: { programs, models },
});
const side = (
  name: string,
  agents: readonly AgentIdentity[] | undefined,
  trials: readonly object[] = agents?.map((agent) => ({ agent: agent.name })) ?? [],
) => ({ name, agents, trials });

it("has what programs reported in any trial, and no agent without trials", () => {
  const trials = [ran(["codex 2"], ["m"]), ran(["codex 1"], null), { agent: "codex" }];
  expect(identitiesOf([codex, { name: "other", type: "model" }], trials)).toEqual([
    { ...codex, programs: ["codex 1", "codex 2"], models: ["m"] },
  ]);
  // A baseline has them in place of trials.
  expect(identitiesOf([{ ...codex, programs: ["codex 3"] }], [{ agent: "codex" }])).toEqual([
    { ...codex, programs: ["codex 3"] },
  ]);
});

it.each<[string, AgentIdentity, string]>([
  ["home", { ...codex, home: "user" }, "home trial and user"],
  ["permissions", { ...codex, permissions: "deny" }, "permissions allow and deny"],
  ["protocol", { ...codex, type: "command" }, "type acp and command"],
  ["model", { ...codex, model: "m" }, "chosen model none and m"],
  ["prompt", { ...codex, systemHash: "abc" }, "system prompt none and abc"],
  ["effort", { ...codex, effort: "high" }, "effort none and high"],
])("tells that another %s is not the same agent", (_, other, said) => {
  expect(agentDifferences(side("a", [codex]), side("b", [other]))).toEqual([
    `The agents of a and b are not the same (codex): ${said}.`,
  ]);
});

it("tells other versions and models, also where one side has several", () => {
  const first = side("a", [codex], [ran(["codex 1"], ["m"])]);
  const second = side("b", [codex], [ran(["codex 1"], ["m"]), ran(["codex 2"], ["n"])]);
  expect(agentDifferences(first, second)).toEqual([
    "The agents of a and b are not the same (codex): program codex 1 and codex 1, codex 2; model m and m, n.",
  ]);
});

it("compares the only agents whatever their names, others by name", () => {
  const [one, two] = [
    { name: "one", type: "model", model: "m" },
    { name: "two", type: "model", model: "n" },
  ];
  expect(agentDifferences(side("a", [one]), side("b", [two]))).toEqual([
    "The agents of a and b are not the same (one and two): chosen model m and n.",
  ]);
  expect(agentDifferences(side("a", [one, two]), side("b", [two]))).toEqual([]);
});

it("says nothing of what is equal or unknown", () => {
  const known = side("a", [codex], [ran(["codex 1"], ["m"])]);
  expect(agentDifferences(known, known)).toEqual([]);
  expect(agentDifferences(known, side("b", [codex], [ran(null, null)]))).toEqual([]);
  expect(agentDifferences(known, side("b", undefined))).toEqual([]);
});
