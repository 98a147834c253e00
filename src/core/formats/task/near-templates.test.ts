import { describe, expect, it } from "vitest";
import { type Locals, nearTemplates } from "./check-texts.ts";

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
    ["{workspce}", "{workspce}", "{workspace}"],
    ["{Workspace}", "{Workspace}", "{workspace}"],
    ["{Env.HOME}", "{Env.HOME}", "{env.HOME}"],
    ["{step.a.outputs.b | json $.x}", "{step.a.outputs.b | json $.x}", "{steps.a.outputs.b | json $.x}"],
    ["{rnadom.id:a}", "{rnadom.id:a}", "{random.id:a}"],
    ["${steps.a.outputs.b}", "${steps.a.outputs.b}", "{steps.a.outputs.b}"],
    ["echo ${env.HOME}/x", "${env.HOME}", "{env.HOME}"],
    ["{ workspace . x }", "{ workspace . x }", names],
    ["{workspace/notes.txt}", "{workspace/notes.txt}", names],
    ["{steps.a.outputs.b[0]}", "{steps.a.outputs.b[0]}", names],
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

  it("is told with every place in a text", () => {
    expect(found("{Env.A} {Env.B} {env.C}").map(([written]) => written)).toEqual(["{Env.A}", "{Env.B}"]);
  });
});

describe("what does not look like a template", () => {
  it.each([
    '{"a": 1, "env": {"x": 2}}',
    "{a: 1, env: 2}",
    "${x} ${workspace} ${HOME:-none} $env.x",
    "a{2,3} \\d{4} [a-z]{3} x{2}",
    "{{.items}} {{ env.HOME }} {{workspce}} ${{ env.X }}",
    "{{range .items}}{{.metadata.name}}{{end}}",
    "awk '{print $1}' | cut -d{ -f1",
    "cp {task.yaml,env.json} out; mkdir -p {a,b}",
    "if (x) { agent.output = 1; }",
    "map(x => {steps.push(x)})",
    "{env} {random} {task} {workspace} { workspace } {env.HOME | sh}",
    "",
    "{",
    "{}",
  ])("%s", (text) => {
    expect(found(text)).toEqual([]);
  });

  it.each(["{name}", "{end}", "{user.name}", "{step:1}", "{a.b}"])("is only a word in braces: %s", (text) => {
    expect(found(text)).toEqual([[text, undefined]]);
  });
});
