import { describe, expect, it } from "vitest";
import { hintsIn, taskDocument, valid, wrongIn } from "../../../../test/support/task-file.ts";

const shell = (run: string, more: object = {}): object => ({ command: { run, ...more } });

function wrong(spec: object): string[] {
  return wrongIn(spec).map((each) => each.replace("config/unknown-reference at value ", ""));
}

describe("what is taken as text", () => {
  const notes = (spec: object): readonly string[] => valid(taskDocument(spec)).notes;

  it("is noted when it was most likely meant as a template", () => {
    const loop = { foreach: { var: "pod", in: ["a"], steps: [shell("{pods} {pod}")] } };
    expect(
      notes({
        prompt: "{worksapce} {name}",
        verify: [shell("${env.HOME}"), loop],
        cleanup: [shell("{env.HOME")],
      }),
    ).toEqual([
      "spec.prompt: {worksapce} is taken as text: nothing is named worksapce here; did you mean {workspace}?",
      "spec.verify[0].command.run: ${env.HOME} is taken as text: after $ nothing is replaced; did you mean {env.HOME}?",
      "spec.verify[1].foreach.steps[0].command.run: {pods} is taken as text: nothing is named pods here; did you mean {pod}?",
      "spec.cleanup[0].command.run: {env.HOME is taken as text: it has no closing brace",
    ]);
  });

  it("is noted with its line, in the order of the file", () => {
    const lines: Readonly<Record<string, number>> = { prompt: 9, verify: 4 };
    const { notes: placed } = valid(taskDocument({ prompt: "{workspce}", verify: [shell("{Env.A}")] }), {
      locate: ({ path }) => ({ file: "t.yaml", line: lines[String(path[1])] ?? 1 }),
    });
    expect(placed).toEqual([
      expect.stringMatching(/^line 4: spec.verify\[0\]/),
      expect.stringMatching(/^line 9: spec.prompt: /),
    ]);
  });
});

describe("outputs", () => {
  const json = { inline: "x", protocol: "json" };

  it.each<[object, string, string | undefined]>([
    [shell("x", { outputs: { a: "{stdot}" } }), "{stdot} refers to nothing", 'Did you mean "stdout"?'],
    [
      shell("x", { outputs: { a: "{foo} {stdout}" } }),
      "{foo} refers to nothing",
      "Known names: stdout, stderr",
    ],
    [{ mcp: { tool: "t", outputs: { a: "{reslt.x}" } } }, "{reslt.x} refers to nothing", '"result"?'],
    [{ script: { ...json, outputs: { a: "{output.x}" } } }, "{output.x} refers to nothing", '"outputs"?'],
    [
      shell("x", { outputs: { a: "${env.HOME}" } }),
      "${env.HOME} is no template: after $ nothing",
      "{env.HOME}?",
    ],
    [shell("x", { outputs: { a: "{stdout" } }), "", undefined],
  ])("%j", (step, message, hint) => {
    if (hint === undefined) return expect(wrong({ verify: [step] })).toEqual([]);
    expect(wrong({ verify: [step] })).toEqual([expect.stringContaining(message)]);
    expect(hintsIn({ verify: [step] })).toEqual([expect.stringContaining(hint)]);
  });

  it("of a solution have values of their own", () => {
    const solution = [{ "main.a": { outputs: { a: "{stdout}" } } }];
    expect(wrong({ prompt: "p", solution })).toEqual([
      'spec.solution[0]["main.a"].outputs.a: spec.solution[0]["main.a"].outputs.a: {stdout} refers to nothing',
    ]);
  });

  it("that are always the same are noted", () => {
    const step = shell("x", { outputs: { a: "b", c: '{"d": 1}', e: "{stdout}" } });
    expect(valid(taskDocument({ verify: [step] })).notes).toEqual([
      "spec.verify[0].command.outputs.a has no template, so that it is always the same text",
      "spec.verify[0].command.outputs.c has no template, so that it is always the same text",
    ]);
  });
});
