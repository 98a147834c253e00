import { afterAll, describe, expect, it } from "vitest";
import { AgentTrial } from "../../../test/support/grading.ts";
import { errorResult, textResult, workflowTask } from "../../../test/support/trial-events.ts";
import type { TrialMeasurements } from "../../model/result.ts";
import { SchemaValidator } from "../schema-validator.ts";
import type { Json, JsonObject } from "../../base/json.ts";
import { invalidCalls, measure } from "./measure.ts";

function rowOf(play: (trial: AgentTrial) => void): TrialMeasurements | undefined {
  return measure(new AgentTrial(play).trajectory(workflowTask()))?.row;
}

/** The same trial with tools of a server that says which of them only read. */
function notesOf(play: (trial: AgentTrial) => void): TrialMeasurements | undefined {
  return rowOf((trial) => {
    const readOnly = { annotations: { readOnlyHint: true } };
    trial.list(
      [{ name: "list_notes", ...readOnly }, { name: "get_note", ...readOnly }, { name: "create_note" }],
      { server: "docs" },
    );
    play(trial);
  });
}

const docs = { server: "docs" };

it("has nothing of a trial without servers and calls", () => {
  const trial = new AgentTrial().trajectory(workflowTask());
  expect(measure({ ...trial, tools: [] })).toBeUndefined();
  expect(measure({ ...trial, agentStarted: undefined } as never)).toBeUndefined();
  expect(measure({ ...trial, task: { ...trial.task, form: "check" } })).toBeUndefined();
});

it("counts calls of tools that no server offers", () => {
  const row = rowOf((trial) => {
    trial.use("list");
    trial.fail("drop");
    trial.reject("shell");
    trial.report("terminal", { source: "unknown", status: "failed" });
    trial.emit({ type: "tools.hidden", server: "k8s", tools: ["delete"] });
    trial.fail("delete");
  });
  expect(row).toMatchObject({ calls: 4, unknownTools: 3, errors: 0 });
});

it("counts calls that were not sent for another reason as what they are", async () => {
  const schema = { type: "object", required: ["id"], properties: { id: { type: "number" } } };
  const trial = new AgentTrial((play) => {
    play.list([{ name: "get_note", inputSchema: schema }], { server: "docs" });
    play.reject("get_note", "two servers offer it", { id: 1 }, { known: true });
    play.reject("get_note", "the arguments are not an object", "{", { known: true, server: "docs" });
  }).trajectory(workflowTask());
  expect(measure(trial)?.row).toMatchObject({ calls: 1, unknownTools: 0, errors: 1 });
  await using validator = new SchemaValidator();
  const invalid = await invalidCalls(trial, (...given) => validator.validate(...given));
  expect(invalid).toEqual([{ seq: expect.any(Number), causes: ["wrong type"] }]);
});

it.each<readonly [string, number, (trial: AgentTrial) => void]>([
  [
    "a repetition",
    1,
    (trial) => [1, 2].forEach(() => trial.call("get_note", { id: 1, x: 2 }, textResult("a"), docs)),
  ],
  [
    "members in another order",
    1,
    (trial) => {
      trial.call("get_note", { id: 1, x: 2 }, textResult("a"), docs);
      trial.call("get_note", { x: 2, id: 1 }, textResult("a"), docs);
    },
  ],
  [
    "another result",
    0,
    (trial) => ["a", "b"].forEach((text) => trial.call("get_note", { id: 1 }, textResult(text), docs)),
  ],
  [
    "other arguments",
    0,
    (trial) => [1, 2].forEach((id) => trial.call("get_note", { id }, textResult("a"), docs)),
  ],
  [
    "a read between",
    1,
    (trial) =>
      ["get_note", "list_notes", "get_note"].forEach((tool) => trial.call(tool, {}, textResult("a"), docs)),
  ],
  [
    "a write between",
    0,
    (trial) =>
      ["get_note", "create_note", "get_note"].forEach((tool) => trial.call(tool, {}, textResult("a"), docs)),
  ],
  [
    "a tool of the agent between",
    0,
    (trial) => {
      trial.call("get_note", {}, textResult("a"), docs);
      trial.report("shell");
      trial.call("get_note", {}, textResult("a"), docs);
    },
  ],
  [
    "repetitions of the agent's own tool",
    0,
    (trial) => {
      trial.call("get_note", {}, textResult("a"), docs);
      for (const callId of ["1", "2", "3"])
        trial.report("bash", { callId, args: { command: "ls" }, result: "a" });
    },
  ],
  ["failures", 0, (trial) => [1, 2].forEach(() => trial.call("get_note", {}, errorResult("a"), docs))],
])("redundant calls: %s", (_name, redundantCalls, play) => {
  expect(notesOf(play)).toMatchObject({ redundantCalls });
});

it("follows errors to the next success of the same tool", () => {
  const row = rowOf((trial) => {
    trial.fail("get", { name: "a" });
    trial.fail("get", { name: "a" });
    trial.use("list");
    trial.use("get", { name: "b" });
    trial.fail("delete");
  });
  expect(row).toMatchObject({ errors: 3, recoveredErrors: 2, identicalRetries: 1 });
});

it("an answer that an injected fault has changed recovers nothing", () => {
  const row = rowOf((trial) => {
    trial.fail("get", { name: "a" });
    const { id } = trial.request("get", { name: "b" });
    trial.emit({
      type: "fault.injected",
      server: "k8s",
      fault: "truncate",
      method: "tools/call",
      tool: "get",
      id,
    });
    trial.answer({ server: "k8s", id, seq: 0 }, textResult("x"));
  });
  expect(row).toMatchObject({ errors: 2, recoveredErrors: 0 });
});

it("estimates what definitions cost, each tool once", () => {
  const row = rowOf((trial) => {
    trial.list([{ name: "list" }, { name: "get" }, { name: "delete" }]);
    trial.use("list");
  });
  const tokens = (name: string): number =>
    Math.ceil(JSON.stringify({ inputSchema: { type: "object" }, name }).length / 4);
  expect(row).toMatchObject({
    definitionTokens: tokens("list") + tokens("get") + tokens("delete"),
    unusedDefinitionTokens: tokens("get") + tokens("delete"),
  });
});

it.each([
  ["The pod is gone.", ["k8s.get"]],
  ["I could not read it.", []],
  ["Reading it failed; the rest is fine.", []],
  ["", []],
])("a failed call, and then %j", (answer, ignoredErrors) => {
  const row = rowOf((trial) => {
    trial.fail("get");
    trial.say(answer);
  });
  expect(row).toMatchObject({ ignoredErrors });
});

it("an error that was recovered is not ignored, nor one that a message before the last speaks of", () => {
  const recovered = rowOf((trial) => {
    trial.fail("get");
    trial.use("get");
    trial.say("It is there.");
  });
  const told = rowOf((trial) => {
    trial.fail("get");
    trial.say("That did not work.");
    trial.say("Done.");
  });
  expect([recovered?.ignoredErrors, told?.ignoredErrors]).toEqual([[], []]);
});

it.each<readonly [string, boolean]>([
  ["I created the note.", true],
  ["I've successfully created two notes.", true],
  ["Created note 5.", true],
  ["All done! Created the note.", true],
  ["The note has now been created.", true],
  ["I called create_note with the title.", true],
  ["The note has been created by Ann.", false],
  ["Ann created the note.", false],
  ["I created the page.", false],
  ["I have not created the note.", false],
  ["I couldn't create it, so I created no note.", false],
  ["If you agree, I create the note.", false],
  ["Would it help if I created a note?", false],
  ["You can use create_note.", false],
  ["```\nI created the note.\n```", false],
  ["> I created the note.", false],
  ["There are 4 notes.", false],
  ["I haven't created the note.", false],
  ["I created the note?", false],
  ["I used the list of names.", false],
])("a claim without a call: %s %s", (answer, isClaim) => {
  const row = notesOf((trial) => {
    trial.call("list_notes", {}, textResult("4"), docs);
    trial.call("create_note", {}, errorResult("no"), docs);
    trial.say(answer);
  });
  expect(row?.unsupportedClaims).toEqual(
    isClaim ? [{ tool: "docs.create_note", text: expect.any(String) }] : [],
  );
});

it.each<readonly [string, (trial: AgentTrial) => void]>([
  ["the call succeeded", (trial) => trial.call("create_note", {}, textResult("ok"), docs)],
  ["a tool with the same word did", (trial) => trial.call("note_batch", {}, textResult("ok"), docs)],
  ["a tool that can do anything did", (trial) => trial.call("execute", {}, textResult("ok"), docs)],
  ["a tool of the agent did", (trial) => trial.report("Edit")],
])("no claim where %s", (_name, act) => {
  const row = notesOf((trial) => {
    act(trial);
    trial.say("I created the note.");
  });
  expect(row).toMatchObject({ unsupportedClaims: [] });
});

it("a claim has all words of the tool's name", () => {
  const claimsOf = (answer: string): unknown =>
    rowOf((trial) => {
      trial.list([{ name: "archive_old_notes" }], { server: "docs" });
      trial.say(answer);
    })?.unsupportedClaims?.length;
  expect(claimsOf("I archived the notes.")).toBe(0);
  expect(claimsOf("I archived the old notes.")).toBe(1);
});

it.each<[string, readonly string[]]>([
  ["I called the add tool.", ["docs.add"]],
  ["I used the `add` tool to get 5.", ["docs.add"]],
  ["Successfully ran add tool.", ["docs.add"]],
  ["I called addNumber with 2 and 3.", ["docs.addNumber"]],
  ["I used the tool to add the numbers.", []],
  ["I called add.", []],
  ["I used 2 and 3 to add up.", []],
  ["You can call the add tool.", []],
  ["I did not call the add tool.", []],
  ["I used the read tool.", []],
])("a claim of a call of a tool without _ and -: %s", (answer, tools) => {
  const row = rowOf((trial) => {
    trial.list([{ name: "add" }, { name: "addNumber" }, { name: "read" }], { server: "docs" });
    trial.report("Read");
    trial.say(answer);
  });
  expect(row?.unsupportedClaims?.map(({ tool }) => tool)).toEqual(tools);
});

it("names the first claims only, and no call that was made", () => {
  const row = notesOf((trial) => trial.say("I created the note.\n".repeat(9)));
  expect(row?.unsupportedClaims).toHaveLength(5);
  const called = notesOf((trial) => {
    trial.call("create_note", {}, textResult("ok"), docs);
    trial.say("I called create_note with the title.");
  });
  expect(called?.unsupportedClaims).toEqual([]);
});

describe("invalid calls", () => {
  const validator = new SchemaValidator();
  afterAll(() => validator[Symbol.asyncDispose]());

  async function causesOf(inputSchema: Json, args: JsonObject, hidden = false): Promise<readonly string[]> {
    const trial = new AgentTrial((play) => {
      play.server("odd", [{ name: "act", inputSchema }]);
      if (hidden) play.emit({ type: "tools.hidden", server: "odd", tools: ["act"] });
      play.call("act", args, textResult("x"), { server: "odd" });
    });
    const found = await invalidCalls(trial.trajectory(workflowTask()), validator.validate.bind(validator));
    return found.flatMap(({ causes }) => causes);
  }

  const object = (rest: JsonObject): JsonObject => ({ type: "object", ...rest });
  const number = { type: "number" };

  it.each<[string, JsonObject, JsonObject, readonly string[]]>([
    ["fits", object({ properties: { a: number }, required: ["a"] }), { a: 1 }, []],
    ["a key that is not named", object({ properties: { a: number } }), { b: 1 }, ["unknown key"]],
    [
      "a key that is refused",
      object({ properties: {}, additionalProperties: false }),
      { b: 1 },
      ["unknown key"],
    ],
    [
      "a key that nothing evaluates",
      object({ allOf: [{ properties: { a: number } }], unevaluatedProperties: false }),
      { b: 1 },
      ["unknown key"],
    ],
    [
      "a key that another part may name",
      object({ properties: {}, anyOf: [{ required: ["b"] }] }),
      { b: 1 },
      [],
    ],
    ["two missing keys, once", object({ required: ["a", "b"] }), {}, ["missing key"]],
    ["a key that another one needs", object({ dependentRequired: { a: ["b"] } }), { a: 1 }, ["missing key"]],
    ["another type", object({ properties: { a: number } }), { a: "1" }, ["wrong type"]],
    ["no value of the list", object({ properties: { a: { enum: [1, 2] } } }), { a: 3 }, ["unknown value"]],
    ["another constant", object({ properties: { a: { const: 1 } } }), { a: 3 }, ["unknown value"]],
    ["a number out of range", object({ properties: { a: { minimum: 1 } } }), { a: 0 }, ["invalid value"]],
    ["a schema that cannot be used", object({ properties: { a: { type: "nothing" } } }), { a: 1 }, []],
  ])("%s", async (_, schema, args, causes) => {
    expect(await causesOf(schema, args)).toEqual(causes);
  });

  it("are not those of tools that the agent was not offered", async () => {
    const schema = object({ required: ["a"] });
    expect(await causesOf(schema, {})).toEqual(["missing key"]);
    expect(await causesOf(schema, {}, true)).toEqual([]);
  });
});

it("does not count as an error a call that was open when the trial was killed", () => {
  const play = (trial: AgentTrial): void => {
    trial.fail("get");
    trial.request("list", {});
  };
  expect(rowOf(play)).toMatchObject({ calls: 2, errors: 1 });
  const ended = rowOf((trial) => {
    play(trial);
    trial.emit({ type: "trial.finished", outcome: "completed", durationMs: 1 });
  });
  expect(ended).toMatchObject({ calls: 2, errors: 2 });
});
