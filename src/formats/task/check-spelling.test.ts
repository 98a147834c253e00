import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { hintsIn, taskDocument, valid, wrongIn } from "../../../test/support/task-file.ts";
import { type Locals, nearTemplates } from "./check-texts.ts";

/** Rows of a table in YAML. */
const rows = <T extends unknown[]>(text: string): T[] => parseYaml(text) as T[];

const shell = (run: string, more: object = {}): object => ({ command: { run, ...more } });

function wrong(spec: object): string[] {
  return wrongIn(spec).map((each) => each.replace("config/unknown-reference at value ", ""));
}

describe("what is taken as text", () => {
  const notes = (spec: object): readonly string[] => valid(taskDocument(spec)).notes;

  it("is noted when it was most likely meant as a template", () => {
    const loop = { foreach: { var: "volume", in: ["a"], steps: [shell("{volims} {volume}")] } };
    expect(
      notes({
        prompt: "{wrksapc} {name}",
        verify: [shell("${env.HOME}"), loop],
        cleanup: [shell("{env.HOME")],
      }),
    ).toEqual([
      "spec.prompt: {wrksapc} is taken as text: nothing is named wrksapc here; did you mean {workspace}?",
      "spec.verify[0].command.run: ${env.HOME} is taken as text: after $ nothing is replaced; did you mean {env.HOME}?",
      "spec.verify[1].foreach.steps[0].command.run: {volims} is taken as text: nothing is named volims here; did you mean {volume}?",
      "spec.cleanup[0].command.run: {env.HOME is taken as text: it has no closing brace",
    ]);
  });

  it("is noted with its line, in the order of the file", () => {
    const lines: Readonly<Record<string, number>> = { prompt: 9, verify: 4 };
    const { notes: placed } = valid(taskDocument({ prompt: "{wrksapc}", verify: [shell("${env.A}")] }), {
      locate: ({ path }) => ({ file: "t.yaml", line: lines[String(path[1])] ?? 1 }),
    });
    expect(placed).toEqual([
      expect.stringMatching(/^line 4: spec.verify\[0\]/),
      expect.stringMatching(/^line 9: spec.prompt: /),
    ]);
  });
});

describe("a word in braces that is a name but for one slip is refused", () => {
  it.each(
    rows<[object, string, string]>(`
- [{prompt: "Look into {workspce}."}, "spec.prompt: {workspce} is not a template", "{workspace}?"]
- [{env: {A: "{Workspace}/x"}}, "spec.env.A: {Workspace} is not a template", "{workspace}?"]
- [{verify: [{command: {run: "{evn.HOME}"}}]}, "{evn.HOME} is not a template", "{env.HOME}?"]
- [{verify: [{command: {run: "{step.a.outputs.b}"}}]}, "{step.a.outputs.b} is not a template",
    "{steps.a.outputs.b}?"]
- [{verify: [{foreach: {var: pod, in: [a], steps: [{command: {run: "{pods}"}}]}}]},
    "{pods} is not a template: nothing is named pods here", "{pod}?"]
- [{solution: [{main.a: {args: {path: "{worksapce}/x"}}}], prompt: p}, "{worksapce} is no", "{workspace}?"]
`),
  )("%j", (spec, message, hint) => {
    expect(wrong(spec)).toEqual([expect.stringContaining(message)]);
    expect(hintsIn(spec)).toEqual([
      expect.stringContaining(`Did you mean ${hint} For the text itself write {{`),
    ]);
  });

  it.each([
    "{end}",
    "-o jsonpath='{range .items[*]}{.metadata.name}{end}'",
    "{{workspce}}",
    "${workspce}",
    "{nev}",
    '{"step": {a: 1}}',
  ])("and these are text: %s", (text) => {
    expect(valid(taskDocument({ verify: [shell(text)] })).notes).toEqual([]);
  });
});

describe("a word in braces in a path is a template, or refused", () => {
  const file = (path: string): object => ({ file: { path, expect: { exists: true } } });

  it.each(
    rows<[object, string]>(`
- [{file: {path: "{folder}/note.txt", expect: {exists: true}}},
    "spec.verify[0].file.path: {folder} is not a template: nothing is named folder"]
- [{file: {path: "{workspce}/note.txt", expect: {exists: true}}},
    "spec.verify[0].file.path: {workspce} is not a template"]
- [{command: {run: test -s a.txt, workdir: "{tmp.dir}"}}, "spec.verify[0].command.workdir: {tmp.dir} is no"]
- [{script: {file: "{x}.sh"}}, "spec.verify[0].script.file: {x} is not a template"]
`),
  )("%j", (step, message) => {
    expect(wrong({ verify: [step] })).toEqual([expect.stringContaining(message)]);
  });

  it("but braces may be written", () => {
    expect(wrong({ verify: [file("{{folder}}/note.txt"), file("{workspace}/{{x}")] })).toEqual([]);
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
      "${env.HOME} is not a template: after $ nothing",
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

const none: Locals = new Map();
const inLoop: Locals = new Map([["item", () => true]]);

/** Each finding as written, and what was meant or else why it is none. */
function found(text: string, locals = none): (readonly [string, string | undefined])[] {
  return nearTemplates(text, locals).map(({ text: written, isWhole, meant, why }) => [
    written,
    isWhole ? meant : (meant ?? why),
  ]);
}

describe("what looks like a template and is none", () => {
  const names = "a template is names with dots between them, and no more";
  const open = "it has no closing brace";

  it.each([
    ["in {worksapce}/a", "{worksapce}", "{workspace}"],
    ["{Env.HOME}", "{Env.HOME}", "{env.HOME}"],
    ["{step.a.outputs.b | json $.x}", "{step.a.outputs.b | json $.x}", "{steps.a.outputs.b | json $.x}"],
    ["{rnadom.id:a}", "{rnadom.id:a}", "{random.id:a}"],
    ["${steps.a.outputs.b}", "${steps.a.outputs.b}", "{steps.a.outputs.b}"],
    ["{ workspace . x }", "{ workspace . x }", names],
    ["{workspace/notes.txt}", "{workspace/notes.txt}", names],
    ['{env["HOME"]}', '{env["HOME"]}', names],
    ["say {steps.a.outputs.b and go", "{steps.a.outputs.b", open],
    ["{env.HOME\nrest}", "{env.HOME", open],
  ])("%s", (text, written, meant) => {
    expect(found(text)).toEqual([[written, meant]]);
  });

  it.each([
    ["{items.name}", [["{items.name}", "{item.name}"]]],
    ["{itme}", [["{itme}", "{item}"]]],
    ["{item} {item.name}", []],
  ])("beside the variable of a foreach: %s", (text, expected) => {
    expect(found(text, inLoop)).toEqual(expected);
  });
});

describe("what does not look like a template", () => {
  it.each([
    '{"a": 1, "env": {"x": 2}}',
    "${x} ${workspace} ${HOME:-none} $env.x",
    "a{2,3} \\d{4} [a-z]{3} x{2}",
    "{{.items}} {{ env.HOME }} {{workspce}} ${{ env.X }}",
    "{{range .items}}{{.metadata.name}}{{end}}",
    "awk '{print $1}' | cut -d{ -f1",
    "cp {task.yaml,env.json} out; mkdir -p {a,b}",
    "map(x => {steps.push(x)})",
    "{env} {random} {task} {workspace} { workspace } {env.HOME | sh}",
    "",
  ])("%s", (text) => {
    expect(found(text)).toEqual([]);
  });

  it.each(["{name}", "{end}", "{user.name}", "{step:1}", "{a.b}"])("is only a word in braces: %s", (text) => {
    expect(found(text)).toEqual([[text, undefined]]);
  });
});
